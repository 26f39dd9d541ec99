# SPDX-License-Identifier: Apache-2.0

"""The database of the functional tests: a MariaDB server of their own."""

from tests.cloud import database


class MariaDBMixin:
    """For the test cases of tests.db_cases."""

    @classmethod
    def make_database(cls):
        return database.MariaDBDatabase()

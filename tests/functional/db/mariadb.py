# SPDX-License-Identifier: Apache-2.0

"""The database of the functional tests: a MariaDB server of their own."""

import functools

from tests.cloud import database
from tests.cloud import mariadb


@functools.cache
def shared_database(server):
    """Return a database at both schemas, which ends with the server.

    To make one takes a second of a processor, three on Galera.
    """
    made = database.MariaDBDatabase(server=server)
    made.setUp()
    made.upgrade()
    return made


class OwnMariaDBMixin:
    """For the test cases of tests.db_cases that change the schema.

    And for those that count what the server reads: how it reads a table
    depends on what was in there before.
    """

    @classmethod
    def make_database(cls):
        return database.MariaDBDatabase()


class MariaDBMixin(OwnMariaDBMixin):
    """For the others: all of a process have one database."""

    @classmethod
    def get_database(cls):
        return shared_database(mariadb.shared_server())

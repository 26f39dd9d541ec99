# SPDX-License-Identifier: Apache-2.0

from tests.db_cases import purge
from tests.functional.db import mariadb


class TestPurge(mariadb.MariaDBMixin, purge.PurgeCases):
    pass


class TestLookup(mariadb.MariaDBMixin, purge.LookupCases):
    pass

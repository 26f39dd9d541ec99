# SPDX-License-Identifier: Apache-2.0

from tests.db_cases import purge
from tests.unit.db import sqlite


class TestPurge(sqlite.SqliteMixin, purge.PurgeCases):
    pass


class TestLookup(sqlite.SqliteMixin, purge.LookupCases):
    pass

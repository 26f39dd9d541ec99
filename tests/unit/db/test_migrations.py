# SPDX-License-Identifier: Apache-2.0

from tests.db_cases import migrations
from tests.unit.db import sqlite


class TestMigrations(sqlite.SqliteMixin, migrations.MigrationCases):
    pass


class TestNextMigration(sqlite.SqliteMixin, migrations.NextMigrationCases):
    pass

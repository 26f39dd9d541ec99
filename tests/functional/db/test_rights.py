# SPDX-License-Identifier: Apache-2.0

"""The rights in the database that the documentation lists are enough."""

import pathlib
import re
import uuid

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from tests.db_cases import calls
from tests.functional.db import mariadb

PAGE = (pathlib.Path(__file__).resolve().parents[3] /
        'doc/source/install/requirements.rst')
RIGHT = re.compile(r'\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|INDEX)\b')


def documented_rights():
    """Return the rights of each row of the table, in its order."""
    text = PAGE.read_text().split('.. _database-rights:', 1)[1]
    rows = text.split('   * - ')[2:]
    return [', '.join(RIGHT.findall(row)) for row in rows]


class TestRights(mariadb.OwnMariaDBMixin, calls.Calls):

    def setUp(self):
        super().setUp()
        self.server, self.name = self.database.server, self.database.name
        (self.read, self.image, self.group, self.health, self.own, self.zone,
         self.lookup, self.more) = documented_rights()

    def connect_as(self, *grants):
        """Make a user with these rights, and an engine of his."""
        user = f'u{uuid.uuid4().hex[:12]}'
        self.server.execute(
            f"CREATE USER {user}@'%' IDENTIFIED BY 'octavia'",
            *(f"GRANT {rights} ON {self.name}.{table} TO {user}@'%'"
              for rights, table in grants))
        self.addCleanup(self.server.execute, f"DROP USER {user}@'%'")
        conf = self.make_conf(database={
            'connection': self.server.url(self.name).replace(
                'octavia:octavia@', f'{user}:octavia@')})
        engine = api.create_engine(conf)
        self.addCleanup(engine.dispose)
        return engine

    def test_each_call(self):
        own = [*models.Base.metadata.tables, schema.VERSION_TABLE]
        self.engine = self.connect_as(
            (self.read, 'amphora'), (self.read, 'load_balancer'),
            (self.health, 'amphora_health'),
            *((self.group if table is compat.VRRP_GROUP else self.image,
               table.name) for table in compat.IMAGE_TABLES),
            *((self.zone, table.name) for table in compat.ZONE_TABLES),
            *((self.own, table) for table in own))
        for function, method in calls.CALLS:
            self.empty()
            function(self.engine, *getattr(self, method)())
        with self.engine.connect() as connection:
            schema.check(connection)

    def test_upgrade(self):
        self.addCleanup(schema.upgrade, self.database.engine)
        self.server.execute(*(
            f'DROP TABLE {self.name}.{table}' for table in
            (*models.Base.metadata.tables, schema.VERSION_TABLE)))
        self.assertEqual((None, schema.head()), schema.upgrade(
            self.connect_as((f'{self.own}, {self.more}', '*'))))

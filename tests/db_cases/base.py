# SPDX-License-Identifier: Apache-2.0

"""A database at Octavia's schema and ours, and ways to look into it."""

import concurrent.futures
import contextlib
import itertools
import json
import threading
import time
import uuid

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from tests.unit import base

# Those that point to others first.
OCTAVIA_TABLES = ('amphora_health', 'amphora', 'vip_security_group', 'vip',
                  'additional_vip', 'vrrp_group', 'sni',
                  'listener_statistics', 'listener_cidr', 'listener',
                  'health_monitor', 'member', 'pool', 'tags',
                  'load_balancer', 'availability_zone',
                  'availability_zone_profile')


def find_filled(connection, tables):
    """Return those of some tables that have a row."""
    if not tables:
        return []
    # SQLAlchemy would take longer to write it than a database to do it.
    filled = set(connection.exec_driver_sql(' UNION ALL '.join(
        f"SELECT '{table.name}' WHERE EXISTS "  # nosec B608
        f'(SELECT 1 FROM {table.name})' for table in tables)).scalars())
    return [table for table in tables if table.name in filled]


class BareDatabaseTestCase(base.TestCase):
    """Each test has a database with Octavia's tables, and none of ours.

    make_database() comes from a mixin.
    """

    def setUp(self):
        super().setUp()
        self.database = self.useFixture(self.make_database())
        self.engine = self.database.engine

    def tables(self):
        with self.engine.connect() as connection:
            return set(sa.inspect(connection).get_table_names())

    def execute(self, *statements):
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))


class DatabaseTestCase(base.TestCase):
    """One database for the tests of a class, each of which finds it empty.

    make_database() comes from a mixin, and so may options of [database], and
    get_database() where classes share one.
    """

    database_options: dict = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.database = cls.get_database()
        cls.records = cls.database.records

    @classmethod
    def get_database(cls):
        """Return a database at both schemas; this one ends with the class."""
        made = cls.make_database()
        made.setUp()
        cls.addClassCleanup(made.cleanUp)
        made.upgrade()
        return made

    def setUp(self):
        super().setUp()
        self.began = time.monotonic()
        self._amphorae_made = itertools.count()
        self.conf = self.make_conf(
            DEFAULT={'host': 'controller1'},
            database={'connection': self.database.connection,
                      **self.database_options})
        self.engine = self.create_engine()
        self.addCleanup(self.engine.dispose)
        self.empty()

    def create_engine(self):
        return api.create_engine(self.conf)

    def empty(self):
        """Delete all rows of ours, and Octavia's amphorae."""
        with self.database.engine.begin() as connection:
            for table in find_filled(connection, [
                    *models.Base.metadata.tables.values(),
                    *(self.records.tables[name] for name in OCTAVIA_TABLES)]):
                connection.execute(sa.delete(table))

    def rows(self, model):
        """All rows of one of our tables, by primary key."""
        table = model.__table__
        with self.engine.connect() as connection:
            return connection.execute(
                sa.select(table).order_by(*table.primary_key)).all()

    def make_older(self, model, column, seconds, **where):
        """Set a time of rows back, as if so many seconds had passed."""
        table = model.__table__
        with self.engine.begin() as connection:
            connection.execute(sa.update(table).filter_by(**where).values(
                {column: types.utcnow_plus(-seconds)}))

    def assertAge(self, expected, age, began=None):
        """Check an age, to which the time since then may have been added.

        :param expected: seconds, less than 0 for what is yet to come.
        :param age: what was read, seconds.
        :param began: time.monotonic() before it was written; None for the
                      beginning of the test.
        """
        longest = expected + time.monotonic() - (began or self.began)
        # Octavia's own times are in whole seconds.
        self.assertTrue(expected - 1 <= age <= longest + 1,
                        f'{age} is not between {expected} and {longest}')

    def add_amphorae(self, number, **values):
        """Add amphorae of Octavia's, and return their ids.

        The same ids in each run of a test: they decide which part of a long
        list an amphora gets, and what fails once shall fail again.
        """
        return [
            self.records.add_amphora(f'192.0.2.{n}', amphora_id=str(uuid.uuid5(
                uuid.NAMESPACE_OID, f'{self.id()} {made}')), **values)
            for n, made in zip(range(1, number + 1), self._amphorae_made)]

    def add_zone(self, name, network_id=None, compute_zone=None):
        """Add an availability zone of Octavia's."""
        data = {'management_network': network_id,
                'compute_zone': compute_zone}
        profile_id = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        self.records.insert_all({
            'availability_zone_profile': [{
                'id': profile_id, 'name': name, 'provider_name': 'amphora',
                'availability_zone_data': json.dumps(
                    {k: v for k, v in data.items() if v})}],
            'availability_zone': [{
                'name': name, 'enabled': True,
                'availability_zone_profile_id': profile_id}]})

    def add_amphora_in(self, zone):
        """Add an amphora of a load balancer in a zone; None for nowhere."""
        load_balancer_id = self.records.add_load_balancer()
        self.records.change('load_balancer', load_balancer_id,
                            availability_zone=zone)
        return self.add_amphorae(1, load_balancer_id=load_balancer_id)[0]

    @contextlib.contextmanager
    def count_statements(self):
        """Collect the statements of all threads, in a list."""
        statements = []

        def add(connection, cursor, statement, *args):
            # oslo.db begins transactions of SQLite by one.
            if statement != 'BEGIN':
                statements.append(statement)

        sa.event.listen(self.engine, 'before_cursor_execute', add)
        try:
            yield statements
        finally:
            sa.event.remove(self.engine, 'before_cursor_execute', add)

    def run_at_once(self, functions):
        """Call functions at the same time, a thread for each.

        :returns: what they returned.
        """
        barrier = threading.Barrier(len(functions))

        def run(function):
            barrier.wait()
            return function()

        with concurrent.futures.ThreadPoolExecutor(
                len(functions)) as executor:
            return list(executor.map(run, functions))

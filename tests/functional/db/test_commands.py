# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync, while the database goes away."""

from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.cloud import mysql_proxy
from tests.functional.db import mariadb
from tests.unit.cli import base

LINE = ('The database cannot be used: {}. Check [database] connection in '
        'octavia.conf, and the database.\n')
# Of a command that has done what it was to do.
NOT_RECORDED = 'How this order ended is not recorded: '
LOST = (2013, 'Lost connection to MySQL server during query')
TIMED_OUT = (2013, f'{LOST[1]} (timed out)')
# What it takes to open a connection is the same for all of them.
OPENING = 13


class TestDatabaseGoesAway(mariadb.MariaDBMixin, base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.proxy = self.useFixture(
            mysql_proxy.FaultyProxy(self.database.server.port))
        self.be_patient(60)

    def be_patient(self, seconds):
        """Have commands wait so long for each answer of the server."""
        url = self.database.engine.url.set(
            port=self.proxy.port).update_query_dict(
                {'read_timeout': str(seconds)})
        self.conf_path = self.write_conf(
            database={'connection': url.render_as_string(False)},
            hmsync={'offline_after': 600})

    def check(self, fault, expected, numbers, *argv):
        """Run a command with a fault at each of these requests.

        It fails with one line, or had nothing to ask for any more, but for
        its order.
        """
        # A busy server is none that hangs.
        self.be_patient(1 if fault == mysql_proxy.HANGS else 60)
        results = set()
        for number in numbers:
            self.proxy.fail_from(number, fault)
            code, _out, err = self.run_command(*argv)
            line = LINE.format(expected)
            self.assertIn((code, err), (
                (1, line), (0, ''), (0, f'{NOT_RECORDED}{line}')), number)
            results.add(code)
        self.assertIn(1, results)
        self.proxy.heal()
        self.be_patient(60)
        self.run_ok(*argv)

    def count_requests(self, *argv):
        self.proxy.heal()
        self.run_ok(*argv)
        return self.proxy.number

    def check_each(self, *argv):
        """Let the server die at each of a command's requests in turn."""
        number = self.count_requests(*argv)
        self.assertGreater(number, OPENING)
        self.check(mysql_proxy.DIES, LOST, range(OPENING, number + 1), *argv)

    def test_while_it_gets_to_know_the_server(self):
        for fault, error in ((mysql_proxy.DIES, LOST),
                             (mysql_proxy.HANGS, TIMED_OUT)):
            # Before the seventh it sets its own options.
            self.check(fault, error, (1, 2, 8, 9, 10), 'sync', 'status')

    def test_upgrade(self):
        number = self.count_requests('db', 'upgrade')
        self.check_each('db', 'upgrade')
        self.check(mysql_proxy.HANGS, TIMED_OUT, (number // 2,),
                   'db', 'upgrade')

    def test_look(self):
        self.check_each('sync', 'status')

    def test_change(self):
        self.check_each('sync', 'pause')
        for number in (1, 2):
            hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                             5555, 'one', 20)
        self.check_each('health', 'manager', 'drain', 'hm1')

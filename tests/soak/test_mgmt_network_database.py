# SPDX-License-Identifier: Apache-2.0

"""The management network, when the database goes away in between."""

from octavia_hmsync.db import models
from octavia_hmsync.network import port
from tests.cloud import mysql_proxy
from tests.functional.db import mariadb
from tests.functional import mgmt_network


# What it takes to open a connection is the same for all of them.
OPENING = 13


class TestDatabaseGoesAway(mariadb.MariaDBMixin,
                           mgmt_network.NetworkTestCase):
    """At each request of a command in turn, before or after it is done."""

    def setUp(self):
        super().setUp()
        self.proxy = self.useFixture(
            mysql_proxy.FaultyProxy(self.database.server.port))
        url = self.database.engine.url.set(port=self.proxy.port)
        self.groups['database'] = {'connection': url.render_as_string(False)}
        self.conf_path = self.write_conf()

    def fail_at_each(self, fault, *argv):
        """Run a command until its last request is behind the fault.

        Yields after each that failed.
        """
        number = OPENING
        while True:
            self.proxy.fail_from(number, fault)
            code, _out, err = self.run_command(*argv)
            seen = self.proxy.number
            self.proxy.heal()
            # Whoever failed has given nothing back.
            for model in (models.Network, models.Port):
                self.make_older(model, 'claim_expires_at', 1000)
            if code == 0:
                # What comes after that are its last words at most.
                self.assertLessEqual(seen, number + 1)
                break
            self.assertEqual((1, 1), (code, err.count('\n')), err)
            self.assertTrue(
                err.startswith('The database cannot be used: '), err)
            yield
            number += 1
        self.assertGreater(number, OPENING + 10)

    def ports(self):
        return [p.name for p in self.network.ports(
            device_owner=port.DEVICE_OWNER)
            if p.network_id == self.network_id]

    def test_network(self):
        for fault in (mysql_proxy.DIES, mysql_proxy.LOSES):
            for _ in self.fail_at_each(fault, 'network', 'ensure'):
                self.assertNothingThere()
            self.assertAllThere()
            self.assertEqual([], self.ensure()['changes'])
            for _ in self.fail_at_each(fault, 'network', 'delete'):
                pass
            self.assertNothingThere()
            self.assertEqual([], self.rows(models.Network))

    def test_port(self):
        self.network_id = self.ensure()['network_id']
        for fault in (mysql_proxy.DIES, mysql_proxy.LOSES):
            for _ in self.fail_at_each(fault, 'network', 'port', 'ensure'):
                self.assertEqual([], self.ports())
            self.assertEqual([port.get_name('controller1')], self.ports())
            for _ in self.fail_at_each(fault, 'network', 'port', 'delete',
                                       'controller1'):
                pass
            self.assertEqual([], self.ports())
            self.assertEqual([], self.rows(models.Port))

# SPDX-License-Identifier: Apache-2.0

"""The management network, while Neutron fails or somebody else works on it."""

import time

from oslo_db import exception as db_exc

from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import held
from octavia_hmsync.network import changes
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network import network
from octavia_hmsync.network import removal
from tests.cloud import http_proxy
from tests.functional import mgmt_network
from tests.unit.db import sqlite


class TestHalfWay(mgmt_network.NetworkTestCase):
    """A request fails, or its answer is lost: each of them once."""

    def setUp(self):
        super().setUp()
        self.proxy = self.useFixture(
            http_proxy.FaultyProxy(self.neutron.port))
        self.set_options(self.proxy.url)

    def ensure_failing(self, number, fault, **kwargs):
        """Run it with one bad request.

        :returns: (exit code, what it said, the last request).
        """
        self.proxy.fail_at(number, fault, **kwargs)
        code, _out, err = self.run_command('network', 'ensure')
        requests = self.proxy.requests
        self.proxy.heal()
        self.assertNotIn('Traceback', err)
        return code, err, (requests + [None] * number)[number - 1]

    def test_ensure_at_each_request(self):
        failed = []
        while True:
            # The worst that can become of a change: it is made, and nobody
            # says so.
            code, err, request = self.ensure_failing(len(failed) + 1,
                                                     http_proxy.LOSES)
            if code == 0:
                break
            failed.append(request)
            self.assertEqual(1, err.count('\n'), err)
            self.assertNotIn('could not take back', err)
            self.assertNothingThere()
        # Discovery, and the 20 requests that it takes.
        self.assertGreater(len(failed), 20, failed)
        self.assertEqual({'GET', 'POST', 'PUT'},
                         {method for method, _path in failed})
        self.assertAllThere()

    def test_nonsense(self):
        # Discovery, two looks for the network, and its creation.
        for fault in (http_proxy.LIES, http_proxy.BABBLES):
            for number in (1, 2, 4):
                code, err, _request = self.ensure_failing(number, fault)
                self.assertEqual((1, 1), (code, err.count('\n')), err)
                self.assertTrue(err.startswith('Could not '), err)
                self.assertNothingThere()

    def test_ensure_when_neutron_dies(self):
        """What is left is said, and the next one goes on with it."""
        for number, made in ((5, 'network'), (8, 'subnet'),
                             (12, 'security group')):
            code, err, _request = self.ensure_failing(
                number, http_proxy.REFUSES, for_good=True)
            self.assertEqual((1, 1), (code, err.count('\n')), err)
            self.assertIn(f'could not take back: {made} {self.name}', err)
        # All of it is left, but for rules and a tag.
        self.assertAllThere()
        self.assertEqual(4, len(self.ensure()['changes']))
        self.assertAllThere()
        self.assertEqual([], self.ensure()['changes'])

    def test_ensure_when_database_and_neutron_die(self):
        def record(*args):
            self.proxy.fail_at(1, http_proxy.REFUSES, for_good=True)
            raise db_exc.DBConnectionError(Exception('it has gone away'))

        self.patch(network_repo, 'record', record)
        code, _out, err = self.run_command('network', 'ensure')
        self.assertEqual((1, 1), (code, err.count('\n')), err)
        self.assertRegex(err, 'it has gone away.* could not take back: .*'
                              f'network {self.name}')

    def test_delete_at_each_request(self):
        self.ensure()
        number = 0
        code = 1
        while code:
            number += 1
            self.proxy.fail_at(number, http_proxy.LOSES)
            code, _out, err = self.run_command('network', 'delete')
            self.assertNotIn('Traceback', err)
        self.assertGreater(number, 8)
        self.assertNothingThere()
        self.assertEqual([], self.rows(network_repo.models.Network))


class TestAtOnce(mgmt_network.NetworkTestCase):

    def ensurer(self, engine):
        return lambda: network.ensure(compat.CONF, engine,
                                      cloud.connect(compat.CONF))

    def setUp(self):
        super().setUp()
        # Parses octavia.conf for all of them.
        self.ensure('--dry-run')

    def test_two_controllers(self):
        """They have the same database: one waits for the other."""
        results = self.run_at_once([self.ensurer(self.engine)] * 2)
        self.assertEqual(results[0].ids, results[1].ids, results)
        self.assertEqual([0, 7], sorted(len(r.changes) for r in results))
        self.assertAllThere()

    def test_two_databases(self):
        """Nothing but Neutron tells them of each other."""
        results = self.run_at_once(list(map(
            self.ensurer, (self.engine, self.make_other_engine()))))
        self.assertEqual(results[0].ids, results[1].ids, results)
        self.assertAllThere()

    def make_other_engine(self):
        other = self.useFixture(sqlite.SqliteMixin.make_database())
        network_repo.models.Base.metadata.create_all(other.engine)
        engine = api.create_engine(self.make_conf(
            database={'connection': other.connection}))
        self.addCleanup(engine.dispose)
        return engine

    def test_somebody_else_is_faster(self):
        """They make it after we have looked, and before we make it."""
        theirs = []
        ensure_theirs = self.ensurer(self.make_other_engine())
        look = held.Held.look

        def be_slow(own_claim):
            self.patch(held.Held, 'look', look)
            theirs.append(ensure_theirs())
            # Neutron knows only whole seconds.
            time.sleep(1.1)

        self.patch(held.Held, 'look', be_slow)
        ours = self.ensurer(self.engine)()
        self.assertEqual(theirs[0].ids, ours.ids)
        self.assertEqual(ours.to_ids(),
                         network_repo.get_ids(self.engine, self.name))
        self.assertEqual([], ours.changes)
        self.assertAllThere()

    def test_too_slow(self):
        """Another one has taken over, and uses what was made meanwhile."""
        look = held.Held.look

        def lose(own_claim):
            if self.names()['security_groups']:
                self.patch(held.Held, 'look', look)
                self.make_older(network_repo.models.Network,
                                'claim_expires_at', 1)
                network_repo.claim(self.engine, self.name, 'controller9', 60)
            look(own_claim)

        self.patch(held.Held, 'look', lose)
        e = self.assertRaises(exceptions.NotPossible,
                              self.ensurer(self.engine))
        self.assertIn('controller9 works on the management network', str(e))
        self.assertIn('could not take back: ', str(e))
        self.assertEqual(['-subnet'], self.names()['subnets'])
        network_repo.release(self.engine, self.name, 'controller9')
        self.ensure()
        self.assertAllThere()

    def test_ensure_and_delete(self):
        """One after the other, whichever is first."""
        self.ensure()
        removed, ensured = self.run_at_once([
            lambda: removal.delete(compat.CONF, self.engine,
                                   cloud.connect(compat.CONF)),
            self.ensurer(self.engine)])
        self.assertEqual({'deleted'}, {r.outcome for r in removed})
        if ensured.changes:
            self.assertAllThere()
            self.assertEqual(ensured.to_ids(), network_repo.get_ids(
                self.engine, self.name))
        else:
            self.assertNothingThere()

    def test_another_one_is_at_work(self):
        self.ensure()
        network_repo.claim(self.engine, self.name, 'controller9', 3600)
        self.patch(changes, '_SHORTEST', 0)
        self.patch(changes, '_REQUESTS', 0)
        for command in ('ensure', 'delete'):
            self.assertFails('controller9 works on the management',
                             'network', command)
        self.assertAllThere()

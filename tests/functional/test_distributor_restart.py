# SPDX-License-Identifier: Apache-2.0

"""A distributor with a real Open vSwitch that forwards its VIPs.

Whenever its process, ovs-vswitchd or the node dies, there is never half a VIP,
and all comes back.
"""

import contextlib
import os
import threading
import time
from unittest import mock

import fixtures
from oslo_config import cfg
from oslotest import base

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openvswitch as data_plane
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import vips
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import distributor
from tests.cloud import openvswitch
from tests.cloud import process
from tests.cloud import waiting
from tests.unit.distributor import examples

VIP_ID = examples.VIP_ID
IDS = [examples.make_id(0x300 + number) for number in range(5)]
TIMEOUT = 120
BEFORE = ['ACTIVE', 'ACTIVE']
AFTER = ['ACTIVE', 'DRAINING', 'ACTIVE']


class Died(BaseException):
    """Ends what a process does, as its end does: nothing is cleaned up."""


def make_document(version, members, number=0):
    """Return a Document with addresses and a port of its own."""
    return examples.make_document(
        version, members=members, addresses=[f'10.0.{number}.5'],
        port={'id': examples.make_id(0x900 + number),
              'mac': examples.make_mac(0x900 + number), 'mtu': 1450})


class VswitchTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.node = self.useFixture(openvswitch.Namespace(
            'node', self.directory))
        self.vswitch = self.useFixture(openvswitch.OpenVswitch(
            self.node, 'network1', self.directory))

    def dump(self, vip_id):
        """Return what forwards a VIP, without what was counted."""
        bridge = bridges.Names.of(vip_id).bridge
        return (process.run(
            'ovs-ofctl', '-O', 'OpenFlow15', '--no-stats', '--no-names',
            '--sort', 'dump-flows',
            f'unix:{self.vswitch.directory}/{bridge}.mgmt',
            env=self.vswitch.environment),
            self.vswitch.ofctl('dump-groups', bridge))

    def list_bridges(self):
        return sorted(set(self.vswitch.vsctl('list-br').split()) - {'br-int'})


class TestDeathAtEachStep(VswitchTestCase):
    """In this process: where another one could have died is known here."""

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        distributor_conf.register_opts(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.state_path = os.path.join(self.directory, 'state')
        for name, value in (
                ('state_path', self.state_path),
                ('datapath_type', 'netdev'),
                # Two processors, and others who use them.
                ('openvswitch_timeout', 60),
                ('ovsdb_connection', self.vswitch.connection),
                ('openvswitch_rundir', self.vswitch.directory)):
            self.conf.set_override(name, value, distributor_conf.GROUP)
        self.kept = self.backend = None
        self.start()

    def start(self):
        if self.kept:
            self.kept.close()
        # Programs that begin just now have what they inherit for a moment.
        self.kept = store.Store(self.state_path, timeout=10)
        before, self.backend = self.backend, data_plane.OpenVSwitch(self.conf)
        self.addCleanup(self.backend.close)
        if before:
            # The thread of its connection would live on here.
            self.backend._bridges._api = before._bridges._api
            before.close()
        self.vips = vips.Vips(self.kept, self.backend)
        self.restorer = restore.Restorer(self.vips, 1)

    @contextlib.contextmanager
    def dying_at(self, step):
        """Have it die before or after what outlives it; at a step."""
        made = []

        def count(words):
            made.append(words)
            # Nothing is done any more by who is dead.
            if len(made) > step:
                raise Died

        def patch(owner, name):
            original = getattr(owner, name)

            def run(*args, **kwargs):
                count(f'before {name}')
                result = original(*args, **kwargs)
                count(f'after {name}')
                return result

            return mock.patch.object(owner, name, run)

        with patch(os, 'fsync'), patch(os, 'rename'), \
                patch(ofctl.Ofctl, 'apply'), \
                patch(bridges.Bridges, '_commit'):
            yield

    def die(self, step, function, *args):
        """Call a function and die at a step; False if it ended before."""
        with self.dying_at(step):
            try:
                function(*args)
                return False
            except Died:
                pass
        self.start()
        return True

    def look(self):
        self.restorer.run_once()
        self.assertIsNone(self.restorer.get_health().error)
        for vip in self.vips.list_all():
            self.assertTrue(vip.is_in_force, vip)

    def put_at_each_step(self, before, members):
        for step in range(100):
            version = 1 + 2 * step
            self.vips.delete(VIP_ID)
            if before:
                self.vips.put(VIP_ID, make_document(version, before))
                flows = self.dump(VIP_ID)
            document = make_document(version + 1, members)
            died = self.die(step, self.vips.put, VIP_ID, document)
            if not died:
                # There were some to die at.
                self.assertLess(6, step)
                return
            there = [vip.document for vip in self.vips.list_all()]
            if before and there != [document]:
                # It was not remembered: nothing is changed.
                self.assertEqual([make_document(version, before)], there)
                self.assertEqual(flows, self.dump(VIP_ID))
            self.look()
            if there == [document]:
                self.assertFalse(self.vips.put(VIP_ID, document))
            else:
                self.assertTrue(self.vips.put(VIP_ID, document))

    def test_put(self):
        self.put_at_each_step(BEFORE, AFTER)

    def test_put_of_a_new_one(self):
        self.put_at_each_step(None, BEFORE)

    def test_delete(self):
        for step in range(100):
            self.vips.put(VIP_ID, make_document(1 + step, BEFORE))
            flows = self.dump(VIP_ID)
            if not self.die(step, self.vips.delete, VIP_ID):
                break
            there = self.vips.list_all()
            if there:
                self.assertEqual(flows, self.dump(VIP_ID))
            self.look()
            if not there:
                self.assertEqual([], self.list_bridges())
            self.vips.delete(VIP_ID)
        self.assertLess(4, step)
        self.assertEqual([], self.list_bridges())


class TestRestart(VswitchTestCase):
    """The process itself, in a namespace that stands for the node."""

    def setUp(self):
        super().setUp()
        made = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certificates')))
        self.distributor = distributor.Distributor(
            'network1', '127.0.0.1', 9444, made, self.directory,
            self.directory, vswitch=self.vswitch, namespace=self.node,
            options={'openvswitch_timeout': 60})
        self.useFixture(self.distributor)
        self.distributor.wait_until_ready(TIMEOUT)

    def put_all(self, version, members):
        for number, vip_id in enumerate(IDS):
            self.distributor.ask('put_vip', vip_id, make_document(
                version, members, number))

    def dump_all(self):
        return [self.dump(vip_id) for vip_id in IDS]

    def test_restarts(self):
        self.put_all(1, BEFORE)
        flows = self.dump_all()
        # Of the process: nothing is touched meanwhile, nor after it.
        self.distributor.kill_tree()
        self.assertEqual(flows, self.dump_all())
        self.distributor.start()
        self.distributor.wait_until_ready(TIMEOUT)
        self.assertEqual(flows, self.dump_all())
        # Of ovs-vswitchd, and of the node, while the process lives.
        for restart in (self.restart_vswitchd, self.vswitch.reboot):
            restart()
            waiting.wait_for(lambda: self.has(flows),
                             'sign of the flows of before',
                             processes=[self.distributor])
        # Of all at once.
        self.distributor.kill_tree()
        self.vswitch.reboot()
        self.distributor.start()
        self.distributor.wait_until_ready(TIMEOUT)
        self.assertEqual(flows, self.dump_all())
        self.assertNotIn('Traceback', self.distributor.log())

    def restart_vswitchd(self):
        self.vswitch.vswitchd.kill_tree()
        self.vswitch.start_vswitchd()

    def has(self, flows):
        try:
            return self.dump_all() == flows
        except RuntimeError:
            return False

    def test_killed_meanwhile(self):
        """At moments that nobody chose."""
        self.put_all(1, BEFORE)
        for number in range(5):
            thread = threading.Thread(target=self.put_quietly,
                                      args=(number + 2,))
            thread.start()
            time.sleep(.05 + .1 * number)
            self.distributor.kill_tree()
            thread.join()
            self.distributor.start()
            self.distributor.wait_until_ready(TIMEOUT)
            found = self.distributor.ask('list_vips')
            self.assertEqual(IDS, [vip['id'] for vip in found])
            self.put_all(number + 2, (BEFORE, AFTER)[number % 2])
            for vip in self.distributor.ask('list_vips'):
                self.assertEqual((number + 2, True),
                                 (vip['version'], vip['in_force']))

    def put_quietly(self, version):
        with contextlib.suppress(exceptions.DistributorUnreachable):
            self.put_all(version, (BEFORE, AFTER)[version % 2])

    def test_vswitchd_that_is_down(self):
        self.put_all(1, BEFORE)
        self.vswitch.vswitchd.kill_tree()
        error = self.assertRaises(
            exceptions.DistributorError, self.distributor.ask, 'put_vip',
            IDS[0], make_document(2, AFTER))
        self.assertNotIn('\n', str(error))
        self.vswitch.start_vswitchd()
        waiting.wait_for(
            lambda: all(vip['in_force'] for vip in
                        self.distributor.ask('list_vips')),
            'sign of all VIPs', processes=[self.distributor])
        self.distributor.ask('put_vip', IDS[0], make_document(2, AFTER))
        status = self.distributor.ask('get_status')
        self.assertEqual(('ONLINE', 5, 5), (
            status['status'], status['vips'], status['in_force']))

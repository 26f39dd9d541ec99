# SPDX-License-Identifier: Apache-2.0

"""A distributor that dies at each of its steps, and comes back.

With the real class for Open vSwitch, and something simple in place of that;
tests/functional/test_distributor_restart.py has the same with a real one.
"""

import contextlib
import copy
import os
from unittest import mock

import fixtures
from oslo_config import cfg

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor.ovs import openvswitch
from octavia_hmsync.distributor.ovs import wire
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import store
from octavia_hmsync.distributor import vips
from tests.unit import base
from tests.unit.distributor import examples
from tests.unit.distributor.ovs import test_openvswitch

VIP_ID = examples.VIP_ID
BEFORE = ['ACTIVE', 'ACTIVE']
AFTER = ['ACTIVE', 'DRAINING', 'ACTIVE']
# What changes something that outlives the process.
STEPS = ((os, 'fsync'), (os, 'rename'), (os, 'unlink'),
         (test_openvswitch.FakeFlows, 'apply'),
         (test_openvswitch.FakeLinks, 'ensure'),
         (test_openvswitch.FakeLinks, 'set_announced'),
         (test_openvswitch.FakeLinks, 'remove'))


class Died(BaseException):
    """Ends what a process does, as its end does: nothing is cleaned up."""


@contextlib.contextmanager
def dying_at(step):
    """Have it die before or after a step; yields the list of those made."""
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

    with contextlib.ExitStack() as patches:
        for owner, name in STEPS:
            patches.enter_context(patch(owner, name))
        yield made


class TestDeaths(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        # Its threads would go on in other tests.
        self.useFixture(fixtures.MockPatchObject(
            openvswitch.announcer, 'Announcer', autospec=True))
        # Meters come by it, which a change that is begun anew adds anew.
        self.useFixture(fixtures.MockPatchObject(
            wire, 'Line', autospec=True)
        ).mock.return_value.add_meters.return_value = True
        self.flows = test_openvswitch.FakeFlows()
        self.links = test_openvswitch.FakeLinks()
        self.conf = cfg.ConfigOpts()
        distributor_conf.register_opts(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.path = self.useFixture(fixtures.TempDir()).path
        self.now = 1000.0
        self.kept = None
        self.start()
        self.addCleanup(lambda: self.kept.close())

    def start(self):
        if self.kept:
            self.kept.close()
        self.kept = store.Store(self.path, timeout=0)
        self.vips = vips.Vips(
            self.kept, openvswitch.OpenVSwitch(self.conf, self.flows,
                                               self.links),
            lambda: self.now)
        self.restorer = restore.Restorer(self.vips, 1)

    def die(self, step, function, *args):
        """Call a function, and die at a step of it; False if it has less."""
        with dying_at(step) as made:
            try:
                function(*args)
                return False
            except Died:
                pass
        self.assertLessEqual(step + 1, len(made))
        self.start()
        return True

    def look(self):
        self.restorer.run_once()
        self.assertTrue(all(vip.is_in_force
                            for vip in self.vips.list_all()))

    def read(self):
        return (copy.deepcopy(self.flows.flows),
                copy.deepcopy(self.flows.groups), dict(self.links.vips))

    def get_document(self):
        return next((vip.document for vip in self.vips.list_all()), None)

    def run_from(self, before, document):
        """Put a document at each step; yields the state after its death."""
        for step in range(200):
            self.vips.delete(VIP_ID)
            self.look()
            if before:
                self.vips.put(VIP_ID, before)
            was = self.read()
            died = self.die(step, self.vips.put, VIP_ID, document)
            yield was, died
            if not died:
                self.assertLess(8, step)
                return

    def test_put(self):
        for before in (None, examples.make_document(1, BEFORE),
                       examples.make_document(1, AFTER, active=False)):
            document = examples.make_document(2, AFTER)
            self.vips.delete(VIP_ID)
            if before:
                self.vips.put(VIP_ID, before)
            self.vips.put(VIP_ID, document)
            expected = self.read()
            for was, _died in self.run_from(before, document):
                there = self.get_document()
                self.assertIn(there, (before, document))
                if there == before:
                    # Nothing has begun of what is not remembered.
                    self.assertEqual(was, self.read())
                self.look()
                if there == before:
                    self.assertEqual(was, self.read())
                # The controller got no answer: it sends it again.
                self.assertEqual(there == before,
                                 self.vips.put(VIP_ID, document))
                self.assertEqual(expected, self.read())

    def test_death_of_all_at_once(self):
        """Of the node: nothing is left of flows, and of files all."""
        before = examples.make_document(1, BEFORE)
        document = examples.make_document(2, AFTER)
        for _was, _died in self.run_from(before, document):
            self.flows.flows.clear()
            self.flows.groups.clear()
            self.look()
            self.vips.put(VIP_ID, document)
            again = self.read()
            self.look()
            self.assertEqual(again, self.read())
            self.assertEqual(document, self.get_document())

    def test_delete(self):
        document = examples.make_document(1, BEFORE)
        for step in range(200):
            self.vips.put(VIP_ID, document)
            was = self.read()
            if not self.die(step, self.vips.delete, VIP_ID):
                break
            there = self.get_document()
            if there:
                self.assertEqual(was, self.read())
            self.look()
            self.assertEqual([VIP_ID] if there else [],
                             self.links.list_vips())
            self.vips.delete(VIP_ID)
        self.assertLess(6, step)
        self.assertEqual([], self.links.list_vips())

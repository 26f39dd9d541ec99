# SPDX-License-Identifier: Apache-2.0

"""What was done is taken back, and what cannot be is said."""

from openstack import exceptions as sdk_exc
from openstack.network.v2 import network

from octavia_hmsync import exceptions
from octavia_hmsync.network import changes
from tests.unit import base


class FakeNeutron:
    """Keeps networks by id; fails as it is told.

    .is_down: nothing is answered. .loses: the next one to be made is made,
    and nobody is told.
    """

    def __init__(self):
        self.networks = {}
        self.is_down = False
        self.loses = False

    def _check(self):
        if self.is_down:
            raise sdk_exc.SDKException('down')

    def create(self, name):
        self._check()
        made = network.Network(id=f'id-{name}', name=name)
        self.networks[made.id] = made
        if self.loses:
            self.loses = False
            raise sdk_exc.SDKException('lost')
        return made

    def delete(self, network_id):
        self._check()
        self.networks.pop(network_id, None)

    def find(self, name):
        self._check()
        return [n for n in self.networks.values() if n.name == name]


class TestChanges(base.TestCase):

    def setUp(self):
        super().setUp()
        self.neutron = FakeNeutron()
        self.changes = changes.Changes(self.make_conf())

    def make(self, name, to=None, inside=None):
        return (to or self.changes).make(
            f'network {name}', lambda: self.neutron.create(name),
            self.neutron.delete, lambda: self.neutron.find(name), inside)

    def test_made_and_taken_back(self):
        self.assertEqual('id-a', self.make('a').id)
        self.make('b')
        self.assertEqual(['create network a (id-a)',
                          'create network b (id-b)'], self.changes.done)
        self.assertIsNone(self.changes.take_back())
        self.assertEqual({}, self.neutron.networks)
        self.assertEqual([], self.changes.done)
        # Nothing is left to be taken back.
        self.neutron.is_down = True
        self.assertIsNone(self.changes.take_back())

    def test_the_last_first(self):
        order = []
        for name in 'abc':
            self.changes.change(f'do {name}', lambda: None,
                                lambda name=name: order.append(name))
        self.changes.take_back()
        self.assertEqual(['c', 'b', 'a'], order)

    def test_one_of_them(self):
        self.make('a')
        self.make('b')
        self.make('c', inside='id-a')
        self.changes.take_back_one('id-a')
        self.changes.take_back_one('id-of-others')
        self.assertEqual({'id-b'}, set(self.neutron.networks))
        self.assertEqual(['create network b (id-b)'], self.changes.done)

    def test_answer_lost(self):
        self.neutron.loses = True
        self.assertRaises(exceptions.CloudUnavailable, self.make, 'a')
        self.assertEqual({'id-a'}, set(self.neutron.networks))
        self.assertIsNone(self.changes.take_back())
        self.assertEqual({}, self.neutron.networks)

    def test_no_answer_and_nothing_to_be_seen(self):
        self.neutron.is_down = True
        self.assertRaises(exceptions.CloudUnavailable, self.make, 'a')
        self.neutron.is_down = False
        self.assertIn('Of network a no answer came',
                      self.changes.take_back())

    def test_refused(self):
        """It was not made: nothing is looked for."""
        def refuse():
            raise exceptions.CloudRefused('no')
        self.assertRaises(exceptions.CloudRefused, self.changes.make,
                          'network a', refuse, None, None)
        self.assertIsNone(self.changes.take_back())

    def test_answer_without_an_id(self):
        self.assertRaises(
            exceptions.CloudUnavailable, self.changes.make, 'network a',
            network.Network, self.neutron.delete,
            lambda: self.neutron.find('a'))
        self.assertIn('no answer came', self.changes.take_back())

    def test_what_cannot_be_taken_back(self):
        self.make('a')
        self.make('b')
        self.neutron.is_down = True
        left = self.changes.take_back()
        for words in ('network a (id-a)', 'network b (id-b)',
                      'octavia-hmsync network delete'):
            self.assertIn(words, left)
        self.assertNotIn('\n', left)

    def test_neutron_is_gone_for_good(self):
        """All are named, and few are tried: each may take long."""
        tried = []
        for name in 'abcde':
            self.make(name)
        self.neutron.is_down = True
        self.patch(self.neutron, '_check',
                   lambda check=self.neutron._check: (tried.append(1),
                                                      check()))
        left = self.changes.take_back()
        self.assertEqual(2, len(tried))
        for name in 'abcde':
            self.assertIn(f'network {name} (id-{name})', left)

    def test_dry_run(self):
        dry = changes.Changes(self.make_conf(), dry_run=True)
        self.neutron.is_down = True
        self.assertIsNone(self.make('a', dry))
        dry.change('rename the network b', self.fail)
        self.assertEqual(['create network a', 'rename the network b'],
                         dry.done)

    def test_claim_lost(self):
        """Nothing is done any more; who has the claim may use what is."""
        claims = iter([None, None])

        def renew():
            if next(claims, self) is self:
                raise exceptions.NotPossible('somebody else works on it')
        self.changes = changes.Changes(self.make_conf(), before=renew,
                                       before_undo=renew)
        self.make('a')
        self.changes.change('tag', lambda: None)
        self.assertRaises(exceptions.NotPossible, self.make, 'b')
        self.assertRaises(exceptions.NotPossible, self.changes.change,
                          'tag', self.fail)
        left = self.changes.take_back()
        self.assertEqual({'id-a'}, set(self.neutron.networks))
        self.assertIn('network a (id-a). somebody else works on it', left)

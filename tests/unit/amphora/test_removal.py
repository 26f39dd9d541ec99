# SPDX-License-Identifier: Apache-2.0

"""What is deleted of an amphora, and what is said of what is left."""

import types
from unittest import mock

import fixtures

from octavia_hmsync.amphora import removal
from octavia_hmsync import compute
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import work as work_
from tests.unit import base

AMPHORA = types.SimpleNamespace(id='amphora', compute_id='instance',
                                vrrp_port_id='vrrp')
NOTHING = types.SimpleNamespace(id='amphora', compute_id=None,
                                vrrp_port_id=None)


class TestRemoval(base.TestCase):

    def setUp(self):
        super().setUp()
        self.work = mock.Mock(spec=work_.Work, engine=mock.sentinel.engine,
                              conf=None,
                              compute=mock.Mock(), network=mock.Mock())
        # By name; those that no row tells of.
        self.named = {}
        self.work.network.get_port_by_name.side_effect = self._find
        self.work.network.delete_port.side_effect = self._delete
        self.member_ports = ['member1', 'member2']
        self.refused = set()
        self.steps = []
        for target, name, new in (
                (removal.compat_amphora, 'get_member_ports',
                 lambda amphora_id: list(self.member_ports)),
                (removal.compat_amphora, 'forget_member_port',
                 lambda port_id: self.member_ports.remove(port_id)),
                (octavia_repo, 'set_going', lambda engine, amphora_id:
                 self.steps.append('going')),
                (octavia_repo, 'set_gone', lambda engine, amphora_id:
                 self.steps.append('gone'))):
            self.useFixture(fixtures.MockPatchObject(target, name, new))
        self.work.compute.delete.side_effect = self._delete
        self.cloud = mock.create_autospec(compute.Nova, instance=True)
        self.cloud.list_instances.return_value = []
        self.useFixture(fixtures.MockPatchObject(
            compute, 'connect', lambda conf: self.cloud))

    def _find(self, name):
        ports = self.named.get(name.removesuffix('amphora'))
        if not ports:
            raise removal.compat_amphora.PortNotFound(name)
        return types.SimpleNamespace(id=ports[0])

    def _delete(self, resource):
        if resource in self.refused:
            raise RuntimeError('down')
        self.steps.append(resource)
        for ports in self.named.values():
            if resource in ports:
                ports.remove(resource)

    def test_all(self):
        """The instance first: it may still answer somebody."""
        self.assertEqual([], removal.remove(self.work, AMPHORA))
        self.assertEqual(['going', 'instance', 'member1', 'member2', 'vrrp',
                          'gone'], self.steps)
        self.assertEqual([], self.member_ports)

    def test_nothing_recorded(self):
        """Ports are found by name, all of them."""
        self.member_ports.clear()
        self.named = {'octavia-lb-vrrp-': ['a'],
                      'octavia-lb-member-': ['b', 'c']}
        self.assertEqual([], removal.remove(self.work, NOTHING))
        self.assertEqual(['going', 'a', 'b', 'c', 'gone'], self.steps)

    def test_instance_is_not_recorded(self):
        self.cloud.list_instances.return_value = [compute.Instance(
            'named', 'amphora-amphora', 'amphora', 'BUILD', None)]
        self.assertEqual([], removal.remove(self.work, NOTHING))
        self.assertIn('named', self.steps)
        self.cloud.list_instances.assert_called_once_with('amphora')

    def test_nobody_tells_of_instances(self):
        self.cloud.list_instances.return_value = None
        self.assertEqual([], removal.remove(self.work, NOTHING))
        self.assertEqual('gone', self.steps[-1])
        # What no service tells is not taken for nothing.
        self.cloud.list_instances.side_effect = (
            exceptions.CloudUnavailable('Nova hangs.'))
        self.assertEqual(['instance amphora-amphora'],
                         removal.remove(self.work, NOTHING))

    def test_nobody_tells_of_ports(self):
        self.work.network.get_port_by_name.side_effect = OSError('down')
        self.assertEqual(['port octavia-lb-vrrp-amphora',
                          'port octavia-lb-member-amphora'],
                         removal.remove(self.work, AMPHORA))

    def test_it_goes_on_answering(self):
        """Its peers must know of it for as long as it can take the VIP."""
        self.refused = {'instance'}
        looks = []

        def answers():
            looks.append(list(self.steps))
            if len(looks) == 4:
                self.refused.clear()
            return len(looks) < 5
        self.assertEqual([], removal.remove(self.work, AMPHORA, answers))
        # First before anything is deleted.
        self.assertEqual([['going']] * 4 + [['going', 'instance']], looks)
        self.assertEqual('gone', self.steps[-1])
        reason, = (call.args[0] for call in self.work.note.call_args_list)
        self.assertIn('Amphora amphora still answers, though its '
                      'instance instance cannot be deleted.', reason)

    def test_the_order_to_delete_it_is_only_taken(self):
        looks = iter([True] * 8 + [False])
        self.assertEqual([], removal.remove(self.work, AMPHORA,
                                            lambda: next(looks)))
        self.assertEqual(8, self.steps.count('instance'))
        reason, = (call.args[0] for call in self.work.note.call_args_list)
        self.assertIn('the compute service has taken the order', reason)
        pauses = [call.args[0] for call in self.work.pause.call_args_list]
        self.assertEqual([2, 4, 8, 16, 32, 60, 60], pauses)

    def test_it_cannot_be_deleted_and_is_silent(self):
        """Octavia deletes it when it is heard again."""
        self.refused = {'instance'}
        self.assertEqual(['instance instance'], removal.remove(
            self.work, AMPHORA, lambda: False))
        self.assertEqual('gone', self.steps[-1])
        self.work.note.assert_not_called()

    def test_it_is_silent_for_a_moment(self):
        """While it cannot be deleted it is looked for more than once."""
        self.refused = {'instance'}
        looks = iter([False] * 5 + [True, True, False])

        def answers():
            found = next(looks)
            if found:
                self.refused.clear()
            return found
        self.assertEqual([], removal.remove(self.work, AMPHORA, answers))
        self.assertEqual([], list(looks))
        self.assertIn('instance', self.steps)

    def test_told_at_once(self):
        """A request may take a minute where a service hangs."""
        self.refused = {'instance'}
        self.work.pause.side_effect = exceptions.Stopped
        self.assertRaises(exceptions.Stopped, removal.remove, self.work,
                          AMPHORA, lambda: True)
        self.work.note.assert_called_once()

    def _refuse_for(self, seconds):
        """Have Neutron be away until so much of the time has passed."""
        self.refused = {'member1', 'member2', 'vrrp'}
        passed = [0]

        def pause(pause):
            passed[0] += pause
            if passed[0] >= seconds:
                self.refused.clear()
                self.work.network.get_port_by_name.side_effect = self._find
        self.work.network.get_port_by_name.side_effect = OSError('down')
        self.work.pause.side_effect = pause
        return passed

    def test_neutron_is_away_for_a_moment(self):
        self._refuse_for(15)
        self.assertEqual([], removal.remove(self.work, AMPHORA))
        self.assertEqual([], self.member_ports)

    def test_neutron_is_away_for_good(self):
        """Its ports are in nobody's way: the owner does not wait for them."""
        passed = self._refuse_for(10 ** 6)
        self.assertEqual(5, len(removal.remove(self.work, AMPHORA)))
        self.assertLess(passed[0], 30)
        self.assertEqual('gone', self.steps[-1])

    def test_lost_while_it_answers(self):
        self.work.note.side_effect = exceptions.Lost
        self.refused = {'instance'}
        self.assertRaises(exceptions.Lost, removal.remove, self.work,
                          AMPHORA, lambda: True)
        self.assertNotIn('gone', self.steps)

    def test_refused(self):
        """The rest goes all the same; what is left is told, and once."""
        self.refused = {'instance', 'member1', 'b'}
        self.named = {'octavia-lb-member-': ['b']}
        self.assertEqual(
            ['instance instance', 'port member1',
             'port octavia-lb-member-amphora'],
            removal.remove(self.work, AMPHORA))
        self.assertEqual(['going', 'member2', 'vrrp', 'gone'], self.steps)
        # Whoever looks for it again finds its row.
        self.assertEqual(['member1'], self.member_ports)

    def test_tried_again(self):
        self.work.compute.delete.side_effect = [RuntimeError, None]
        self.assertEqual([], removal.remove(self.work, AMPHORA))
        self.work.pause.assert_called_once()

    def test_lost(self):
        """Nothing more is deleted by one who has lost it."""
        for error in (exceptions.Lost, exceptions.Stopped,
                      exceptions.Unwanted):
            self.steps.clear()
            self.refused = {'instance'}
            self.work.pause.side_effect = error
            self.assertRaises(error, removal.remove, self.work, AMPHORA)
            self.assertEqual(['going'], self.steps)

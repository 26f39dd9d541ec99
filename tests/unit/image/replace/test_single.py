# SPDX-License-Identifier: Apache-2.0

"""Who has the VIP of a SINGLE load balancer, and who tells its neighbours."""

import types
from unittest import mock

import fixtures

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import single
from octavia_hmsync.image.replace import work as work_
from tests.unit import base

SUBNET = types.SimpleNamespace(cidr='192.0.2.0/24', gateway_ip=None,
                               host_routes=None)


def amphora(name, **values):
    return types.SimpleNamespace(**{
        'id': name, 'lb_network_ip': name, 'vrrp_ip': name,
        'vrrp_port_id': f'{name}-port', **values})


class TestSingle(base.TestCase):

    def setUp(self):
        super().setUp()
        # .told is whom the neighbours believe.
        self.holders, self.told, self.silent = {'old'}, 'old', set()
        self.ids = ['old', 'new']
        self.enabled = True
        self.vip = '192.0.2.5'
        # keepalived of each: whether it has a configuration, and runs.
        self.uploaded, self.running = {}, set()
        self.interfaces = {}
        self.work = mock.Mock(spec=work_.Work, conf=None, network=mock.Mock())
        self.work.network.get_subnet.return_value = SUBNET
        self.work.network.get_network.return_value.mtu = 1450
        self.work.network.get_port.side_effect = lambda port_id: (
            types.SimpleNamespace(
                mac_address='fa:16:3e:00:00:01', network_id='network',
                fixed_ips=[types.SimpleNamespace(
                    ip_address=address, subnet_id='subnet') for address in (
                        port_id.removesuffix('-port'), '2001:db8::6')]))
        self.described = []
        self.work.get_load_balancer.side_effect = self._get_load_balancer
        self.work.agent_of.side_effect = self._agent_of
        self.work.insist.side_effect = lambda function, *args: function(*args)
        self.work.ask_network.side_effect = (
            lambda amphora_id, function, *args: function(*args))
        self.useFixture(fixtures.MockPatchObject(
            single.Single, '_configure_agent'))
        self.single = single.Single(self.work)

    def _get_load_balancer(self, without=()):
        return types.SimpleNamespace(
            id='lb', vip=types.SimpleNamespace(ip_address=self.vip,
                                               subnet_id='subnet'),
            additional_vips=[],
            listeners=[types.SimpleNamespace(enabled=self.enabled)],
            amphorae=[amphora(name) for name in self.ids
                      if name not in without])

    def _agent_of(self, each):
        def do(change):
            def done(*args):
                if each.id in self.silent:
                    raise exceptions.AgentUnreachable('No answer.')
                change(each.id)
            return done

        def do_with(change):
            def done(interface):
                self.described.append(interface)
                do(change)()
            return done

        def tell(name):
            self.assertIn(name, self.holders)
            self.told = name

        def take(name):
            if ':' in self.vip and self.holders - {name} and (
                    name not in self.running):
                raise exceptions.AgentRefused('It is a duplicate.')
            self.holders.add(name)

        def get_interface(address):
            if address == each.id:
                return self.interfaces.get(each.id, 'eth1')
            return 'lo' if each.id in self.running else None
        return types.SimpleNamespace(
            holds=lambda vip: do(lambda _: None)() or (
                each.id in self.holders),
            take_vip=do_with(take), advertise=do(tell),
            release_vip=do_with(self.holders.discard),
            get_interface=get_interface,
            upload_keepalived=lambda text: self.uploaded.update(
                {each.id: text}),
            start_keepalived=do(self.running.add))

    def assertServes(self, name):
        """Whom the neighbours go to has the VIP, and nobody else."""
        self.assertEqual(({name}, name), (self.holders, self.told))

    def test_list_of_its_zone(self):
        """Before it serves."""
        with mock.patch.object(single.own_list, 'give_of_zone',
                               autospec=True) as give:
            give.side_effect = lambda *args: (
                self.work.get_listeners.assert_not_called())
            self.single.configure(amphora('old'), amphora('new'))
        give.assert_called_once_with(self.work, amphora('new'))
        self.work.get_listeners.assert_called_once()

    def test_switch(self):
        self.single.switch(amphora('old'), amphora('new'))
        self.assertServes('new')

    def test_all_addresses_of_a_port(self):
        """Those for members in other subnets are the agents' to keep."""
        self.single.switch(amphora('old'), amphora('new'))
        self.single.back(amphora('old'), amphora('new'))
        self.assertEqual(
            [[name, '2001:db8::6'] for name in ('new', 'old', 'old', 'new')],
            [[address for address, _subnet in interface.fixed_ips]
             for interface in self.described])
        self.assertEqual(['new', 'old', 'old', 'new'],
                         [interface.vrrp_ip for interface in self.described])

    def test_neutron_is_away_meanwhile(self):
        """The VIP goes back without it, if it was asked before."""
        with mock.patch.object(single.own_list, 'give_of_zone',
                               autospec=True):
            self.single.configure(amphora('old'), amphora('new'))
        self.work.ask_network.side_effect = exceptions.CloudUnavailable('No.')
        self.single.switch(amphora('old'), amphora('new'))
        self.assertServes('new')
        self.single.back(amphora('old'), amphora('new'))
        self.assertServes('old')
        self.holders, self.told = {'new'}, 'new'
        self.assertRaises(
            exceptions.CloudUnavailable, single.Single(self.work).back,
            amphora('old'), amphora('new'))
        self.assertServes('new')

    def test_never_without_a_holder(self):
        self.single.switch(amphora('old'), amphora('new'))
        self.single.back(amphora('old'), amphora('new'))
        self.assertServes('old')

    def test_switch_is_done_again(self):
        """Whoever did it before died in the middle."""
        for self.holders, self.told in (({'old', 'new'}, 'old'),
                                        ({'old', 'new'}, 'new'),
                                        ({'new'}, 'new')):
            self.single.switch(amphora('old'), amphora('new'))
            self.assertServes('new')

    def test_old_one_is_silent(self):
        self.silent = {'old'}
        self.assertRaises(exceptions.AgentUnreachable, self.single.switch,
                          amphora('old'), amphora('new'))
        self.assertEqual('new', self.told)

    def test_back_from_one_that_is_silent(self):
        self.holders, self.told, self.silent = {'new'}, 'new', {'new'}
        self.single.back(amphora('old'), amphora('new'))
        self.assertEqual('old', self.told)

    def test_back_from_one_that_never_came_so_far(self):
        for new in (None, amphora('new', lb_network_ip=None),
                    amphora('new', vrrp_port_id=None)):
            self.single.back(amphora('old'), new)
            self.assertServes('old')

    def test_leave(self):
        self.holders = {'old', 'new'}
        for _ in range(2):
            self.single.leave(amphora('old'))
            self.assertEqual({'new'}, self.holders)
        self.assertEqual(1, len(self.described))
        self.silent = {'old'}
        self.assertRaises(exceptions.AgentUnreachable, self.single.leave,
                          amphora('old'))

    def test_old_row_is_gone(self):
        self.holders = set()
        self.single.switch(None, amphora('new'))
        self.assertServes('new')

    def test_settle(self):
        """The one that is gone may have been the last to tell."""
        self.holders, self.told = {'new'}, 'old'
        self.single.settle('old')
        self.assertServes('new')

    def test_nobody_can_tell(self):
        """Without an enabled listener nothing runs that could."""
        self.enabled = False
        self.single.switch(amphora('old'), amphora('new'))
        self.single.settle('old')
        self.assertEqual(({'new'}, 'old'), (self.holders, self.told))

    def test_ipv6(self):
        """It is on both for a moment: who gets it does not look for another.

        keepalived, which does that, goes on: without it no heartbeat is sent.
        """
        self.vip, self.interfaces = '2001:db8::5', {'new': 'eth7'}
        self.single.switch(amphora('old'), amphora('new'))
        self.assertServes('new')
        self.assertIn('net.ipv6.conf.eth7.accept_dad=0',
                      self.uploaded['new'])
        # One that serves is left alone.
        self.assertEqual({'new'}, self.running)
        self.single.back(amphora('old'), amphora('new'))
        self.assertServes('old')
        self.single.settle('new')
        self.assertEqual({'new', 'old'}, self.running)

    def test_ipv6_back_of_one_that_has_it_still(self):
        self.vip = '2001:db8::5'
        self.single.back(amphora('old'), amphora('new'))
        self.assertServes('old')
        self.assertEqual({}, self.uploaded)

    def test_ipv6_of_one_that_is_gone(self):
        """No other one has it."""
        self.vip, self.holders = '2001:db8::5', set()
        self.single.switch(None, amphora('new'))
        self.assertServes('new')
        self.assertEqual({}, self.uploaded)

    def test_ipv6_of_an_additional_vip(self):
        load_balancer = self._get_load_balancer()
        self.assertFalse(single.is_needed(load_balancer))
        load_balancer.additional_vips = [
            types.SimpleNamespace(ip_address='2001:db8::5')]
        self.assertTrue(single.is_needed(load_balancer))

    def test_ipv6_where_keepalived_does_not_start(self):
        """Nothing has moved."""
        self.vip, self.silent = '2001:db8::5', {'new'}
        self.assertRaises(exceptions.AgentUnreachable, self.single.switch,
                          amphora('old'), amphora('new'))
        self.assertServes('old')

    def test_ipv6_where_keepalived_does_nothing(self):
        self.vip, self.running = '2001:db8::5', mock.Mock(
            spec=set, __contains__=lambda *args: False)
        self.patch(single, '_TIMEOUT', 0)
        error = self.assertRaises(
            exceptions.NotProven, self.single.switch, amphora('old'),
            amphora('new'))
        self.assertIn('keepalived of amphora new', str(error))
        self.assertServes('old')

    def test_ipv6_of_odd_interfaces(self):
        self.vip, self.interfaces = '2001:db8::5', {'new': 'eth1; reboot'}
        self.assertRaises(exceptions.NotProven, self.single.switch,
                          amphora('old'), amphora('new'))
        self.assertEqual({}, self.uploaded)

# SPDX-License-Identifier: Apache-2.0

"""Who of a pair is told what, and in which order."""

import difflib
import types
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from octavia.amphorae.drivers.keepalived.jinja import jinja_cfg
from octavia.common import constants
from octavia.common import data_models
from octavia.network import data_models as network_models

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import pair
from octavia_hmsync.image.replace import work as work_
from tests.unit import base

VIP = '192.0.2.5'


def amphora(name):
    return types.SimpleNamespace(id=name, lb_network_ip=name, vrrp_ip=name)


class World:
    """Three amphorae; .holder has the VIP, .calls is what was asked of whom.

    .deaf do not take the VIP although they are preferred.
    """

    def __init__(self, holder, persistence=None):
        self.holder = holder
        self.calls = []
        # Who got the list of its zone, and after how many calls.
        self.listed = []
        self.deaf = False
        self.silent = set()
        self.lacks_secrets = False
        # Those that take no listeners.
        self.strict = set()
        self.config = {}
        self.ids = ['old', 'other', 'new']
        self.persistence = persistence
        self.listeners = ['web']

    def load_balancer(self, without=()):
        persistence = self.persistence and types.SimpleNamespace(
            type=self.persistence)
        return types.SimpleNamespace(
            vip=types.SimpleNamespace(ip_address=VIP),
            id='lb', listeners=self.listeners,
            pools=[types.SimpleNamespace(session_persistence=persistence)],
            amphorae=[amphora(name) for name in self.ids
                      if name not in without])

    def get_listeners(self, load_balancer):
        if self.lacks_secrets:
            raise exceptions.SecretsUnavailable('No certificate.')
        return types.SimpleNamespace(update=self.update_listeners)

    def update_listeners(self, load_balancer, each):
        if each.id in self.strict:
            raise exceptions.AgentRefused('No.')
        self.calls.append(f'listeners {each.id} '
                          f'{"+".join(a.id for a in load_balancer.amphorae)}')

    def agent(self, each):
        name = each.id

        def note(what):
            self.calls.append(f'{what} {name}')

        def upload(text):
            if name in self.silent:
                raise exceptions.AgentUnreachable('No answer.')
            self.config[name] = text
            note(text.split()[0])

        def reload():
            note('reload')
            if self.config[name].startswith('preferred') and not self.deaf:
                self.holder = name
        return types.SimpleNamespace(
            holds=lambda vip: name == self.holder,
            get_interface=lambda address: 'eth1',
            upload_keepalived=upload, reload_keepalived=reload,
            start_keepalived=lambda: note('start'),
            stop_keepalived=lambda: note('stop'))


class TestPair(base.TestCase):

    def make(self, holder, persistence=None):
        self.world = world = World(holder, persistence)
        work = mock.Mock(spec=work_.Work, engine=None, network=None)
        work.agent_of.side_effect = world.agent
        work.insist.side_effect = lambda function, *args: function(*args)
        work.ask_network.side_effect = self._ask_network
        # Whether Neutron is away.
        self.is_away = False
        self.work = work
        work.get_load_balancer.side_effect = world.load_balancer
        work.find_holders.side_effect = lambda amphorae, vip: {
            each.id: each.id == world.holder for each in amphorae}
        work.get_listeners.side_effect = world.get_listeners
        for target, name, new in (
                (pair.octavia_repo, 'set_interface', lambda *args: None),
                (pair.own_list, 'give_of_zone',
                 lambda work, new: world.listed.append(
                     (new.id, len(world.calls)))),
                (pair.compat_amphora, 'read_network_config',
                 lambda load_balancer, each, network: each.id),
                (pair.compat_amphora, 'render_keepalived',
                 lambda load_balancer, each, config: 'usual'),
                (pair, 'prefer', lambda text: 'preferred'),
                (pair, 'time', types.SimpleNamespace(
                    monotonic=lambda: work.pause.call_count))):
            self.useFixture(fixtures.MockPatchObject(target, name, new))
        return pair.Pair(work)

    def _ask_network(self, amphora_id, function, *args):
        if self.is_away:
            raise exceptions.CloudUnavailable('Neutron is away.')
        self.assertEqual(amphora_id, function(*args))
        return amphora_id

    def test_list_of_its_zone(self):
        """Before it serves, and to nobody else."""
        topology = self.make('other')
        topology.configure(amphora('old'), amphora('new'))
        self.assertEqual([('new', 0)], self.world.listed)

    def listeners(self):
        return [call for call in self.world.calls
                if call.startswith('listeners')]

    def test_standby(self):
        """The one with the VIP keeps the connections that it has."""
        topology = self.make('other')
        topology.configure(amphora('old'), amphora('new'))
        self.assertEqual(['listeners new old+other+new'], self.listeners())
        self.assertEqual(
            ['usual old', 'usual other', 'usual new', 'reload old',
             'reload other', 'start new'], self.world.calls[1:])
        del self.world.calls[:]
        topology.switch(amphora('old'), amphora('new'))
        self.assertEqual([], self.world.calls)
        topology.settle('old')
        self.assertEqual(['listeners new other+new'], self.listeners())

    def test_holder(self):
        """The other one is told before it has the VIP, and not after."""
        topology = self.make('old')
        topology.configure(amphora('old'), amphora('new'))
        self.assertEqual(['listeners new old+other+new',
                          'listeners other other+new'], self.listeners())
        del self.world.calls[:]
        topology.switch(amphora('old'), amphora('new'))
        self.assertEqual(['preferred other', 'reload other', 'usual other',
                          'reload other'], self.world.calls)
        self.assertEqual('other', self.world.holder)
        del self.world.calls[:]
        topology.settle('old')
        self.assertEqual(['listeners new other+new'], self.listeners())

    def test_tables(self):
        """What haproxy has in memory goes along; all have to know all."""
        for persistence in ('SOURCE_IP', 'APP_COOKIE'):
            topology = self.make('old', persistence)
            topology.configure(amphora('old'), amphora('new'))
            self.assertEqual(
                [f'listeners {name} old+other+new'
                 for name in ('new', 'old', 'other')], self.listeners())
            del self.world.calls[:]
            topology.settle('old')
            self.assertEqual(['listeners other other+new',
                              'listeners new other+new'], self.listeners())

    def test_cookies(self):
        """Those of HTTP_COOKIE are in the client's memory."""
        topology = self.make('other', 'HTTP_COOKIE')
        topology.configure(amphora('old'), amphora('new'))
        self.assertEqual(1, len(self.listeners()))

    def test_neutron_is_away_meanwhile(self):
        """Those that are left forget the one that is gone without it."""
        topology = self.make('new')
        topology.configure(amphora('old'), amphora('new'))
        self.is_away = True
        del self.world.calls[:]
        topology.settle('old')
        self.assertEqual(['usual other', 'reload other'],
                         self.world.calls[:2])
        self.assertIn('reload new', self.world.calls)
        topology.back(amphora('old'), amphora('new'))
        self.assertEqual('old', self.world.holder)

    def test_settle_where_neutron_tells_of_one_alone(self):
        topology = self.make('new')
        topology.switch(amphora('new'), amphora('other'))
        self.is_away = True
        del self.world.calls[:]
        self.assertRaises(exceptions.CloudUnavailable, topology.settle, None)
        self.assertIn('reload old', self.world.calls)
        self.assertNotIn('reload new', self.world.calls)

    def test_settle_beside_a_dead_one(self):
        """The others know of each other all the same."""
        topology = self.make('new')
        self.world.silent = {'old'}
        self.assertRaises(exceptions.AgentUnreachable, topology.settle, None)
        self.assertEqual(['usual other', 'reload other',
                          'listeners other old+other+new', 'usual new',
                          'reload new'], self.world.calls)

    def test_settle_without_certificates(self):
        """keepalived knows at once who is left; haproxy stays as it is."""
        topology = self.make('new')
        self.world.lacks_secrets = True
        self.assertRaises(exceptions.SecretsUnavailable, topology.settle,
                          'old')
        self.assertEqual(['usual other', 'reload other', 'usual new',
                          'reload new'], self.world.calls)

    def test_settle_where_one_takes_no_listeners(self):
        topology = self.make('new')
        self.world.strict = {'other'}
        self.assertRaises(exceptions.AgentRefused, topology.settle, 'old')
        self.assertEqual(['usual other', 'reload other', 'usual new',
                          'reload new'], self.world.calls)

    def test_leave(self):
        topology = self.make('old')
        topology.leave(amphora('other'))
        self.assertEqual(['stop other'], self.world.calls)

    def test_nobody_takes_it(self):
        """Whoever was preferred is one as the others then."""
        topology = self.make('old')
        self.world.deaf = True
        e = self.assertRaises(exceptions.NotProven, topology.switch,
                              amphora('old'), amphora('new'))
        self.assertIn(f'does not take the VIP {VIP} within', str(e))
        self.assertEqual('usual', self.world.config['other'])
        self.assertEqual('reload other', self.world.calls[-1])

    def test_no_listener(self):
        """None takes the VIP, and none is waited for."""
        topology = self.make('old')
        self.world.listeners = []
        self.world.deaf = True
        topology.switch(amphora('old'), amphora('new'))
        self.world.holder = 'new'
        topology.back(amphora('old'), amphora('new'))
        self.world.holder = None
        topology.wait_for_holder(self.world.load_balancer())
        self.assertEqual([], self.world.calls)
        self.world.listeners = ['web']
        self.assertRaises(exceptions.NotProven, topology.wait_for_holder,
                          self.world.load_balancer())

    def test_back(self):
        """The new one gives the VIP back, and nobody else does."""
        for holder, expected in (('new', 'old'), ('other', 'other'),
                                 ('old', 'old')):
            topology = self.make(holder)
            topology.back(amphora('old'), amphora('new'))
            self.assertEqual(expected, self.world.holder)
        topology = self.make('other')
        topology.back(amphora('old'), None)
        self.assertEqual([], self.world.calls)


IPV4 = {'cidr': '192.0.2.0/24', 'gateway_ip': '192.0.2.1', 'host_routes': []}
IPV6 = {'cidr': '2001:db8::/64', 'gateway_ip': '2001:db8::1',
        'host_routes': [network_models.HostRoute(
            destination='2001:db8:1::/64', nexthop='2001:db8::2')]}
ROUTED = {'cidr': '198.51.100.0/24', 'gateway_ip': None,
          'host_routes': [network_models.HostRoute(
              destination='203.0.113.0/24', nexthop='198.51.100.7')]}


def render(vip, subnet, vrrp_ip, additional=(), role=constants.ROLE_BACKUP,
           peers=()):
    """Render what Octavia does for an amphora.

    :param additional: (address, subnet) pairs.
    """
    amphora = data_models.Amphora(
        id='new', status=constants.AMPHORA_ALLOCATED, vrrp_ip=vrrp_ip,
        vrrp_interface='eth1', vrrp_id=1, vrrp_priority={
            constants.ROLE_MASTER: constants.ROLE_MASTER_PRIORITY,
            constants.ROLE_BACKUP: constants.ROLE_BACKUP_PRIORITY}[role])
    load_balancer = data_models.LoadBalancer(
        id='one', vip=data_models.Vip(ip_address=vip),
        amphorae=[amphora, *(data_models.Amphora(
            status=constants.AMPHORA_ALLOCATED, vrrp_ip=peer)
            for peer in peers)],
        vrrp_group=data_models.VRRPGroup(
            vrrp_group_name='one', vrrp_auth_type='PASS',
            vrrp_auth_pass='secret', advert_int=1))
    return jinja_cfg.KeepalivedJinjaTemplater().build_keepalived_config(
        load_balancer, amphora, {
            constants.VIP_SUBNET: subnet, 'additional_vip_data': [
                {'ip_address': address, 'subnet': of}
                for address, of in additional]})


def addresses(version):
    return st.ip_addresses(v=version).map(str)


VIPS = st.one_of(*(st.tuples(addresses(version), st.just(subnet))
                   for version, subnet in ((4, IPV4), (4, ROUTED),
                                           (6, IPV6))))


class TestPrefer(base.TestCase):

    def assertPreferred(self, rendered):
        """Two lines differ, and nothing else."""
        changes = [line for line in difflib.ndiff(
            rendered.splitlines(),
            pair.prefer(rendered).splitlines())
            if line[0] in '+-']
        priority, = {line for line in rendered.splitlines()
                     if line.strip() in ('priority 90', 'priority 100')}
        self.assertEqual(
            {f'- {priority}', '+     priority 254', '-     nopreempt'},
            set(changes))
        self.assertEqual(3, len(changes))

    def test_ipv4(self):
        for role in (constants.ROLE_MASTER, constants.ROLE_BACKUP):
            self.assertPreferred(render('192.0.2.5', IPV4, '192.0.2.6',
                                        role=role, peers=['192.0.2.7']))

    def test_ipv6(self):
        self.assertPreferred(render('2001:db8::5', IPV6, '2001:db8::6',
                                    peers=['2001:db8::7']))

    def test_of_both_kinds(self):
        rendered = render('192.0.2.5', IPV4, '192.0.2.6',
                          [('2001:db8::5', IPV6), ('198.51.100.5', ROUTED)])
        # What is no option of the router.
        self.assertEqual(3, rendered.count('table 1 priority 100'))
        self.assertPreferred(rendered)

    @given(st.lists(VIPS, min_size=1, max_size=4), VIPS,
           st.lists(st.one_of(addresses(4), addresses(6)), max_size=2))
    def test_whatever_is_rendered(self, vips, own, peers):
        (vip, subnet), *additional = vips
        self.assertPreferred(render(vip, subnet, own[0], additional,
                                    peers=peers))

    def test_what_is_not_known(self):
        rendered = render('192.0.2.5', IPV4, '192.0.2.6')
        for other in (
                '', 'nonsense', rendered.replace('nopreempt', ''),
                rendered.replace('nopreempt', '# nopreempt'),
                rendered.replace('nopreempt', 'nopreempt # no'),
                rendered.replace('    priority 90', '    priority high'),
                rendered.replace('    priority 90', '    weight 90'),
                rendered + rendered, pair.prefer(rendered)):
            e = self.assertRaises(exceptions.UnknownTemplate,
                                  pair.prefer, other)
            self.assertIn('--mode failover', str(e))

    def test_hush(self):
        """One line differs, of whatever address family."""
        for vip, subnet, own in (('192.0.2.5', IPV4, '192.0.2.6'),
                                 ('2001:db8::5', IPV6, '2001:db8::6')):
            rendered = render(vip, subnet, own)
            self.assertEqual(
                ['-     garp_master_refresh 5', '+     garp_master_refresh 0'],
                [line for line in difflib.ndiff(
                    rendered.splitlines(), pair.hush(rendered).splitlines())
                    if line[0] in '+-'])
            self.assertRaises(exceptions.UnknownTemplate, pair.hush,
                              rendered.replace('garp_master_refresh ', ''))

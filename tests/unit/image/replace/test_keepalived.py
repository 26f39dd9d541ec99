# SPDX-License-Identifier: Apache-2.0

"""keepalived of an amphora that is to take the VIP."""

import difflib

from hypothesis import given
from hypothesis import strategies as st
from octavia.amphorae.drivers.keepalived.jinja import jinja_cfg
from octavia.common import constants
from octavia.common import data_models
from octavia.network import data_models as network_models

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import keepalived
from tests.unit import base

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
            keepalived.prefer(rendered).splitlines())
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
                rendered + rendered, keepalived.prefer(rendered)):
            e = self.assertRaises(exceptions.UnknownTemplate,
                                  keepalived.prefer, other)
            self.assertIn('--mode failover', str(e))

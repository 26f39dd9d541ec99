# SPDX-License-Identifier: Apache-2.0

"""What Octavia unplugs after the management network has changed."""

import contextlib
import types

from octavia.common import config  # noqa: F401 network_tasks reads it
from octavia.controller.worker.v2.tasks import network_tasks
from octavia.network import data_models
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from octavia_hmsync.compat import management_port
from tests.unit import base

# The networks of ports, and the subnet and the address of each.
PORTS = {'old': '10.20.0.40', 'vip': '10.1.0.7', 'members': '10.2.0.7'}
AMPHORA = {'id': 'one', 'compute_id': 'instance',
           'lb_network_ip': PORTS['old']}
LOAD_BALANCER = {'loadbalancer_id': 'lb', 'vip_subnet_id': 'vip-subnet',
                 'vip_network_id': 'vip'}


class NetworkDriver:

    def __init__(self, **ports):
        self.ports = ports

    def get_plugged_networks(self, compute_id):
        return [data_models.Interface(
            compute_id=compute_id, network_id=network, port_id=f'{network}-p',
            fixed_ips=[data_models.FixedIP(subnet_id=f'{network}-subnet',
                                           ip_address=address)])
                for network, address in self.ports.items()]


class TestKeep(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            group='controller_worker', amp_boot_network_list=['new'])
        self.patch(network_tasks, 'CalculateAmphoraDelta', type(
            'Copy', (network_tasks.CalculateAmphoraDelta,), {}))
        self.patch(network_tasks.db_apis, 'get_session',
                   lambda: types.SimpleNamespace(
                       begin=contextlib.nullcontext))

    def plan(self, amphora=AMPHORA, ports=None, zone=None):
        """Return the networks and subnets that members' changes unplug."""
        task = network_tasks.CalculateAmphoraDelta()
        task._network_driver = NetworkDriver(**(ports or PORTS))
        task.loadbalancer_repo = types.SimpleNamespace(
            get=lambda session, id: types.SimpleNamespace(pools=[]))
        self.assertEqual({'loadbalancer', 'amphora', 'availability_zone'},
                         set(task.requires))
        delta = task.execute(LOAD_BALANCER, amphora, availability_zone=zone)
        return ({each['network_id'] for each in delta['delete_nics']},
                {each['subnet_id'] for each in delta['delete_subnets']})

    def test_without(self):
        """Why it is needed; what it wraps is what Octavia does."""
        stock = network_tasks.CalculateAmphoraDelta.execute
        network_tasks.CalculateAmphoraDelta.execute = getattr(
            stock, 'hmsync_stock', stock)
        self.assertEqual(({'old', 'members'}, {'old-subnet',
                                               'members-subnet'}), self.plan())

    def test_old_network(self):
        management_port.keep()
        expected = {'members'}, {'members-subnet'}
        self.assertEqual(expected, self.plan())
        # Twice in a process is once.
        management_port.keep()
        self.assertEqual(expected, self.plan())
        self.assertEqual(expected, self.plan(
            zone={'management_network': 'of the zone'}))

    def test_nothing_else_is_kept(self):
        management_port.keep()
        everything = {'old', 'members'}, {'old-subnet', 'members-subnet'}
        for address in ('10.20.0.41', None):
            self.assertEqual(everything, self.plan(
                {**AMPHORA, 'lb_network_ip': address}))
        self.assertEqual((set(), set()), self.plan(
            {**AMPHORA, 'lb_network_ip': '172.16.0.9'},
            {'new': '172.16.0.9', 'vip': PORTS['vip']}))

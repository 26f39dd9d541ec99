# SPDX-License-Identifier: Apache-2.0

"""The management network is looked after."""

import json
import uuid

from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network import reconcile
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.functional import base as functional_base
from tests.functional import mgmt_network


class TestReconcile(mgmt_network.NetworkTestCase):

    def setUp(self):
        super().setUp()
        self.set_options(reconcile_interval=0)
        self.made = self.ensure()
        self.reconciler = reconcile.Reconciler(compat.CONF, self.engine)

    def show(self):
        return self.run_json('network', 'show')

    def test_as_it_has_to_be(self):
        self.assertEqual(0, self.reconciler.run_once())
        self.assertEqual(0, self.show()['repairs'])
        self.assertIsNotNone(self.show()['reconciled_at'])

    def test_changed_by_others(self):
        group = self.made['health_manager_security_group_id']
        before = self.rules(group)
        for rule in self.network.security_group_rules(
                security_group_id=group, port_range_min=5555):
            self.network.delete_security_group_rule(rule.id)
        self.network.create_security_group_rule(
            security_group_id=group, direction='ingress', protocol='tcp')
        self.network.update_network(self.made['network_id'], name='mine',
                                    is_admin_state_up=False)
        self.network.update_subnet(self.made['subnet_id'],
                                   is_dhcp_enabled=False)
        self.network.set_tags(self.network.get_security_group(group), [])
        self.assertEqual(4, len(self.show()['differences']))
        with self.assertLogs(reconcile.LOG.logger, 'WARNING') as logs:
            self.assertEqual(4, self.reconciler.run_once())
            self.assertEqual(0, self.reconciler.run_once())
        # Each repair once, and once the rule that is not ours to remove.
        self.assertEqual(5, len(logs.output), logs.output)
        self.assertIn('ingress IPv4 tcp with anybody', logs.output[-1])
        self.assertEqual(
            before | {('ingress', 'IPv4', 'tcp', None, None, None)},
            self.rules(group))
        shown = self.show()
        self.assertEqual((4, []), (shown['repairs'], shown['differences']))
        self.assertAllThere()

    def test_group_is_gone(self):
        for port in (None, self.add_amphora_port()):
            made = self.show()
            if port:
                self.network.update_port(port.id, security_group_ids=[])
            self.network.delete_security_group(
                made['amphora_security_group_id'])
            self.reconciler.run_once()
            shown = self.show()
            self.assertNotEqual(made['amp_secgroup_list'],
                                shown['amp_secgroup_list'])
            self.assertEqual([], shown['differences'])
            self.assertAllThere()
        self.assertEqual(
            shown['amp_secgroup_list'],
            self.network.get_port(port.id).security_group_ids)

    def add_amphora_port(self):
        port = self.add_port(self.made)
        self.records.add_amphora(port.fixed_ips[0]['ip_address'])
        return port

    def test_port_of_an_amphora_has_lost_its_group(self):
        port = self.add_amphora_port()
        other = self.add_port(self.made)
        for each in (port, other):
            self.assertNotIn(self.made['amphora_security_group_id'],
                             each.security_group_ids)
        self.assertEqual(1, self.reconciler.run_once())
        self.assertEqual(
            {*port.security_group_ids,
             self.made['amphora_security_group_id']},
            set(self.network.get_port(port.id).security_group_ids))
        self.assertEqual(other.security_group_ids,
                         self.network.get_port(other.id).security_group_ids)

    def test_node_with_the_address_of_an_amphora_elsewhere(self):
        """Amphorae of an older network may be there still."""
        port = self.add_port(
            self.made, device_owner='Octavia:health-mgr',
            security_group_ids=[
                self.made['health_manager_security_group_id']])
        self.records.add_amphora(port.fixed_ips[0]['ip_address'])
        self.assertEqual(0, self.reconciler.run_once())
        self.assertEqual(port.security_group_ids,
                         self.network.get_port(port.id).security_group_ids)

    def test_network_is_gone(self):
        """It is not made anew behind the operator's back."""
        self.network.delete_network(self.made['network_id'])
        e = self.assertRaises(exceptions.NotPossible,
                              self.reconciler.run_once)
        self.assertIn('run "octavia-hmsync network ensure"', str(e))
        self.assertEqual([], self.names()['networks'])
        self.assertIsNone(network_repo.get_row(self.engine,
                                               self.name).claim_owner)

    def test_no_network(self):
        self.delete()
        self.set_options('http://127.0.0.1:1')
        self.assertEqual(0, self.reconciler.run_once())

    def test_not_while_somebody_works_on_it(self):
        network_repo.claim(self.engine, self.name, 'ensure', 60)
        self.network.update_network(self.made['network_id'], name='mine')
        self.assertEqual(0, self.reconciler.run_once())
        network_repo.release(self.engine, self.name, 'ensure')
        self.assertEqual(1, self.reconciler.run_once())


class TestServices(functional_base.FunctionalTestCase):
    """What real services make of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Which may have to be installed; that is no part of the test's time.
        cls.neutron = neutron.shared_server()

    def test_new_amphora_and_repair(self):
        api = self.neutron
        name = f'net-{uuid.uuid4().hex[:8]}'
        cloud = self.make_cloud(options=octavia_conf.merge(
            api.octavia_options(), {
                'hmsync_network': {
                    'network_name': name,
                    'management_subnet_cidr': mgmt_network.CIDR,
                    'amphora_security_group': f'{name}-amphorae',
                    'health_manager_security_group': f'{name}-managers',
                    'supply_options': True, 'reconcile_interval': 1},
                # One from us, and one that the file has.
                'controller_worker': {'amp_secgroup_list': None},
                'hmsync': {'failover_hold_max': 0}}))
        made = json.loads(cloud.command(
            'octavia-hmsync', 'network', 'ensure', '-f', 'json').stdout)
        connection = neutron.connect(api)
        self.addCleanup(connection.close)

        amphora_id = cloud.records.add_amphora(
            cloud.address(200), cloud.records.add_load_balancer())
        cloud.records.set_health(amphora_id, age=0)
        manager = cloud.add_health_manager(
            cloud.address(1), options={'DEFAULT': {'debug': True}})
        keeper = cloud.add_housekeeping()
        cloud.wait_until_ready()
        connection.network.update_network(made['network_id'], name='mine')
        self.wait_for(
            lambda: 'Put right: set name' in keeper.log(), 'repair')
        self.assertEqual(
            name, connection.network.get_network(made['network_id']).name)
        self.wait_for(lambda: 'no-op, build name' in manager.log(),
                      'failover of the dead amphora')
        built = next(line for line in manager.log().splitlines()
                     if 'no-op, build name' in line)
        self.assertIn(f'sec_groups {made["amp_secgroup_list"]}', built)
        self.assertIn("network_ids ['lb-mgmt-net']", built)

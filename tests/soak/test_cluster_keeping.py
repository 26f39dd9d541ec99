# SPDX-License-Identifier: Apache-2.0

"""What becomes of clusters by themselves, on a whole Octavia."""

import contextlib
import json
import time

from testtools import content

from tests.cloud import cluster_world
from tests.cloud import clusters as cloud_clusters
from tests.cloud import machines
from tests.cloud import neutron
from tests.functional import clusters

SILENCE = 20
OPEN = 40


class KeepingCase(clusters.ClusterTestCase):

    options = {'health_manager': {'heartbeat_timeout': SILENCE},
               'hmsync_cluster': {'drain_timeout': 600}}

    def setUp(self):
        super().setUp()
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content('\n'.join(
                f'--- {child.name}\n{child.log_tail(80)}' for child in (
                    *self.cloud.workers, *self.cloud.house_keepers,
                    *self.cloud.health_managers)))))

    def hmsync(self, *arguments):
        return self.cloud.command('octavia-hmsync', *arguments)

    def read_members(self):
        """What operators see of them, by the id of the amphora."""
        return {row['amphora_id']: row for row in json.loads(self.hmsync(
            'cluster', 'member', 'list', '--long', '-f', 'json'))}

    def get_state(self, amphora_id):
        return next((row['state'] for row in
                     self.rows('hmsync_cluster_member')
                     if row['amphora_id'] == amphora_id), None)

    def wait_until(self, amphora_id, state, timeout=120):
        self.cloud.wait_for(
            lambda: self.get_state(amphora_id) == state,
            lambda: f'{state} {amphora_id}: '
            f'{self.rows("hmsync_cluster_member")}, '
            f'{self.rows("hmsync_member_probe")}', timeout)

    def get_status(self, lb):
        return self.api.get_load_balancer(lb.id).operating_status

    def wait_until_shown(self, lb, status, timeout=60):
        self.cloud.wait_for(lambda: self.get_status(lb) == status,
                            lambda: f'{status}: it is {self.get_status(lb)}',
                            timeout)

    def assert_status_for(self, lb, status, seconds):
        """Check that the API shows one status all the time."""
        deadline = time.monotonic() + seconds
        seen = set()
        while time.monotonic() < deadline:
            seen.add(self.get_status(lb))
            time.sleep(0.1)
        self.assertEqual({status}, seen)

    @contextlib.contextmanager
    def without_heartbeats(self, amphora_id):
        """Have an amphora be reached, and not be heard."""
        amphora = self.cloud.compute.by_amphora(amphora_id)
        routes = [f'{address}/32' for address in self.cloud.addresses[1:]]
        for route in routes:
            amphora.run('ip', 'route', 'add', 'blackhole', route)
        try:
            yield
        finally:
            for route in routes:
                amphora.run('ip', 'route', 'del', 'blackhole', route)

    @contextlib.contextmanager
    def without_front_end(self, amphora_id):
        """Have an amphora be heard, and carry no traffic."""
        api = self.cloud.connection.network
        port_id = self.api.get_amphora(amphora_id).vrrp_port_id
        api.update_port(port_id, admin_state_up=False)
        try:
            yield
        finally:
            api.update_port(port_id, admin_state_up=True)

    def assert_same(self, instances, members):
        """Check that nothing was built, deleted or moved."""
        self.assertEqual(instances, set(self.cloud.compute.instances))
        self.assertEqual(members, {
            row['slot']: row['amphora_id']
            for row in self.rows('hmsync_cluster_member')})


class TestSigns(KeepingCase):
    """One sign alone drains, and replaces nothing."""

    def setUp(self):
        super().setUp()
        self.lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(self.lb, 2)
        self.wait_until_shown(self.lb, 'ONLINE')
        self.instances = set(self.cloud.compute.instances)
        self.amphorae = self.get_members()

    def wait_until_well(self, amphora_id):
        # It has to be so for a while.
        self.wait_until(amphora_id, 'ACTIVE')
        self.wait_until_shown(self.lb, 'ONLINE')

    def test_silent(self):
        """It is not heard; what it has goes on."""
        amphora_id = self.amphorae[0]
        held = self.client.hold(self.lb.vip_address, OPEN).wait_until_open()
        probe = self.client.start_probe(self.lb.vip_address,
                                        timeout=machines.PATIENCE)
        with self.without_heartbeats(amphora_id):
            self.wait_until(amphora_id, 'DRAINING')
            self.wait_until_shown(self.lb, 'DEGRADED')
            self.assert_status_for(self.lb, 'DEGRADED', 10)
            time.sleep(SILENCE)
            row = self.read_members()[amphora_id]
            self.assertEqual('SUSPECT', row['health'])
            self.assertIn('No heartbeat since', row['error'])
            self.assert_same(self.instances, self.amphorae)
            self.assertEqual({}, held.report().broken)
        self.wait_until_well(amphora_id)
        self.assertEqual({}, held.stop().broken)
        report = probe.stop()
        self.assertEqual(0, report.failed, report)

    def test_front_end(self):
        """It answers its agent, and forwards nothing."""
        amphora_id = self.amphorae[1]
        with self.without_front_end(amphora_id):
            began = time.monotonic()
            self.wait_until(amphora_id, 'DRAINING')
            self.addDetail('seconds', content.text_content(
                f'{time.monotonic() - began:.1f}'))
            self.wait_until_shown(self.lb, 'DEGRADED')
            self.assertServes(self.lb)
            time.sleep(1.5 * SILENCE)
            self.assertIn('front end', self.read_members()[amphora_id][
                'error'])
            self.assert_same(self.instances, self.amphorae)
        self.wait_until_well(amphora_id)
        self.assertServes(self.lb)
        self._drain()
        self.api.update_load_balancer(self.lb.id, admin_state_up=False)
        self.cloud.wait_until_active(self.lb.id)
        self.wait_until_shown(self.lb, 'OFFLINE')
        self.assert_status_for(self.lb, 'OFFLINE', 5)

    def _drain(self):
        """Operators see which connections are open, until all ended."""
        amphora_id = self.amphorae[0]
        held = self.client.hold(self.lb.vip_address, OPEN).wait_until_open()
        number = len(self.cloud.get_sessions(self.lb)[amphora_id])
        self.assertGreater(number, 0)
        self.hmsync('cluster', 'member', 'drain', amphora_id)
        self.wait_until(amphora_id, 'DRAINING')
        self.wait_until_open(amphora_id, number)
        self.assertIn(f'{number} connections',
                      self.hmsync('cluster', 'show', self.lb.id, '-f',
                                  'value'))
        self.assertEqual({}, held.stop().broken)
        self.wait_until_open(amphora_id, 0)
        self.assert_same(self.instances, self.amphorae)
        self.hmsync('cluster', 'member', 'undrain', amphora_id)
        self.wait_until(amphora_id, 'ACTIVE')
        # Its load balancer was locked for that.
        self.cloud.wait_until_active(self.lb.id)

    def wait_until_open(self, amphora_id, number):
        self.cloud.wait_for(
            lambda: self.read_members()[amphora_id]['connections'] == number,
            lambda: f'{number} open connections: {self.read_members()}',
            # None are open once one that is silent would have been closed.
            180)


class TestSilent(KeepingCase):

    def test_scale_in(self):
        """Nobody counts connections of before a reload that are silent."""
        self.scale_in(0.04)

    def test_keep_alives_of_a_minute(self):
        """The same, where each connection has one packet a minute."""
        self.scale_in(1 / 60)

    def scale_in(self, rate):
        """Take a member out whose haproxy was reloaded.

        :param rate: of requests a second, of each connection.
        """
        lb = cluster_world.make(self.cloud, self.members)
        self.wait_until_whole(lb, 2)
        # Of HTTP a haproxy that is loaded anew would end what is idle.
        held = self.client.hold(
            lb.vip_address, OPEN, port=cluster_world.TCP_PORT,
            rate=rate).wait_until_open(120)
        self.api.create_listener(
            name='other', protocol='HTTP', protocol_port=82,
            load_balancer_id=lb.id)
        self.cloud.wait_until_active(lb.id)
        self.cloud.set_size(lb, 1)
        # Each is used twice.
        time.sleep(2.4 / rate)
        self.assertEqual(['ACTIVE', 'DRAINING'], sorted(
            row['state'] for row in self.rows('hmsync_cluster_member')))
        self.assertEqual({}, held.stop().broken)


class TestOwnGroups(KeepingCase):
    """Distributors may not look at members, and one sign deletes nothing."""

    def make_listener(self, **attributes):
        return {'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
                'default_pool': {
                    'name': 'members', 'protocol': 'HTTP',
                    'lb_algorithm': 'ROUND_ROBIN', 'members': [
                        {'address': member.address, 'protocol_port': 80}
                        for member in self.members]}, **attributes}

    def test_vip_sg_ids(self):
        api = self.cloud.connection.network
        group = api.create_security_group(name='own',
                                          project_id=neutron.PROJECT_ID)
        api.create_security_group_rule(
            security_group_id=group.id, project_id=neutron.PROJECT_ID,
            direction='ingress', protocol='tcp', port_range_min=80,
            port_range_max=80, remote_ip_prefix=f'{self.client.address}/32')
        self.look(self.cloud.add_cluster('web', self.members,
                                         vip_sg_ids=[group.id]))

    def test_allowed_cidrs(self):
        self.look(self.cloud.add_cluster('web', listeners=[
            self.make_listener(allowed_cidrs=[f'{self.client.address}/32'])]))

    def look(self, lb):
        self.wait_until_whole(lb, 2)
        self.wait_until_shown(lb, 'ONLINE')
        self.assertServes(lb)
        instances = set(self.cloud.compute.instances)
        members = self.get_members()
        # Longer than it takes to know that looks are not admitted.
        self.assert_status_for(lb, 'ONLINE', 120)
        self.assertEqual(members, self.get_members())
        with self.without_heartbeats(members[0]):
            self.wait_until(members[0], 'DRAINING')
            deadline = time.monotonic() + 3 * SILENCE
            while time.monotonic() < deadline:
                self.assert_same(instances, members)
                time.sleep(1)
            self.assertServes(lb)
        self.wait_until(members[0], 'ACTIVE')
        self.wait_until_shown(lb, 'ONLINE')
        self.assert_same(instances, members)
        self.assertServes(lb)


class TestOutage(KeepingCase):

    def test_outage(self):
        """No controller is there for longer than any timeout."""
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        self.wait_until_shown(lb, 'ONLINE')
        instances = set(self.cloud.compute.instances)
        members = self.get_members()
        held = self.client.hold(lb.vip_address, OPEN).wait_until_open()
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        controllers = [*self.cloud.workers, *self.cloud.health_managers,
                       *self.cloud.house_keepers]
        for child in controllers:
            child.kill_tree()
        time.sleep(3 * SILENCE)
        for child in controllers:
            child.start()
        self.cloud.wait_until_ready()
        deadline = time.monotonic() + 3 * SILENCE
        while time.monotonic() < deadline:
            self.assert_same(instances, members)
            self.assertEqual(members, self.get_members())
            time.sleep(1)
        self.assertEqual('ONLINE', self.get_status(lb))
        report = probe.stop()
        self.assertEqual(0, report.failed, report)
        self.assertEqual({}, held.stop().broken)


class TestDeaths(KeepingCase):

    def test_standby(self):
        """It takes the slot at once; sizes wait, replacements do not."""
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        self.hmsync('cluster', 'set', lb.id, '--standby', '1', '--cooldown',
                    '3600', '--desired', '3')
        self.wait_until_sizes(3, 1)
        # Not now: the size has just changed.
        self.hmsync('cluster', 'set', lb.id, '--desired', '2')
        members = self.get_members()
        before = set(self.cloud.compute.instances)
        self.cloud.compute.by_amphora(members[0]).kill_tree()
        began = time.monotonic()
        self.cloud.wait_for(
            lambda: self.get_members().get(0) not in (None, members[0]),
            lambda: f'another member: {self.rows("hmsync_cluster_member")}')
        self.addDetail('seconds', content.text_content(
            f'{time.monotonic() - began:.1f}'))
        self.cloud.wait_for(
            lambda: self.get_state(members[0]) is None,
            lambda: f'end: {self.rows("hmsync_cluster_member")}, '
            f'{self.rows("hmsync_member_probe")}', 120)
        self.wait_until_sizes(3, 1)
        self.assertEqual(1, len(before - set(self.cloud.compute.instances)))
        self.wait_until_shown(lb, 'ONLINE')
        self.assertServes(lb)
        self.hmsync('cluster', 'set', lb.id, '--cooldown', '0', '--standby',
                    '0')
        self.wait_until_whole(lb, 2)
        self.assertServes(lb)

    def test_all(self):
        """All are replaced by order, and all die."""
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        self._fail_over(lb)
        self._lose_all(lb)
        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()

    def wait_until_sizes(self, active, standby):
        self.cloud.wait_for(
            lambda: sorted(row['state'] for row in
                           self.rows('hmsync_cluster_member')) ==
            ['ACTIVE'] * active + ['STANDBY'] * standby and len(
                self.cloud.compute.instances) == active + standby,
            lambda: f'{active} and {standby}: '
            f'{self.rows("hmsync_cluster_member")}', 240)

    def _fail_over(self, lb):
        """Octavia's command for a load balancer replaces all, unnoticed."""
        before = set(self.get_members().values())
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        self.api.failover_load_balancer(lb.id)
        self.cloud.wait_for(
            lambda: self.api.get_load_balancer(
                lb.id).provisioning_status == 'PENDING_UPDATE', 'its begin')
        self.cloud.wait_until_active(lb.id, 240)
        report = probe.stop()
        self.assertEqual(0, report.failed, report)
        self.assertFalse(before & set(self.get_members().values()))
        # Nobody is connected to the old ones.
        self.wait_until_whole(lb, 2)

    def _lose_all(self, lb):
        for amphora_id in self.get_members().values():
            self.cloud.compute.by_amphora(amphora_id).kill_tree()
        self.wait_until_shown(lb, 'ERROR')
        self.assert_status_for(lb, 'ERROR', 5)
        self.wait_until_whole(lb, 2)
        self.wait_until_shown(lb, 'ONLINE')
        self.assertServes(lb)


class TestDeathsByOVN(TestDeaths):
    """One looks: nobody else could see what it does not."""

    kind = cloud_clusters.OVNClusterOctavia


class TestHalfWay(KeepingCase):
    """Changes that Octavia's own workers begin, and nobody ends."""

    options = {'hmsync_cluster': {'update_timeout': 20}}

    @contextlib.contextmanager
    def unreached(self, *amphora_ids):
        """Have amphorae serve, and be heard, and take no configuration."""
        route = f'{self.cloud.addresses[0]}/32'
        amphorae = [self.cloud.compute.by_amphora(each)
                    for each in amphora_ids]
        for amphora in amphorae:
            amphora.run('ip', 'route', 'add', 'blackhole', route)
        try:
            yield
        finally:
            for amphora in amphorae:
                amphora.run('ip', 'route', 'del', 'blackhole', route)

    def listens(self, amphora_id, port):
        return bool(self.cloud.compute.by_amphora(amphora_id).run_inside(
            'ss', '-Hltn', 'sport', '=', f':{port}').stdout)

    def add_listener(self, lb, port):
        self.api.create_listener(
            name=f'port{port}', protocol='HTTP', protocol_port=port,
            load_balancer_id=lb.id,
            default_pool_id=self.api.find_pool('members').id)

    def get_provisioning_status(self, lb):
        return self.api.get_load_balancer(lb.id).provisioning_status

    def restore(self, lb, port):
        """Bring it back; each member has what Octavia has."""
        self.hmsync('cluster', 'restore', lb.id, '--older-than', '1')
        self.wait_until_told(lb)
        for amphora_id in self.get_members().values():
            self.assertTrue(self.listens(amphora_id, port))
        self.assertServes(lb, port)
        self.assertEqual({'ACTIVE'}, {
            each.provisioning_status for each in self.api.listeners()})

    def wait_until_told(self, lb):
        """Wait until all members have what Octavia has."""
        self.cloud.wait_for(
            lambda: all(row['config_digest'] and row['state'] == 'ACTIVE'
                        for row in self.rows('hmsync_cluster_member')) and
            self.get_provisioning_status(lb) == 'ACTIVE',
            lambda: f'members: {self.rows("hmsync_cluster_member")}', 180)
        self.assertEqual(
            1, len({row['config_digest']
                    for row in self.rows('hmsync_cluster_member')}))

    def test_half_way(self):
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        members = self.get_members()
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)

        # The worker dies when one of the two has it.
        with self.unreached(members[1]):
            self.add_listener(lb, 81)
            self.cloud.wait_for(lambda: self.listens(members[0], 81),
                                'a listener of one member')
            self.cloud.workers[0].kill_tree()
        self.cloud.workers[0].start()
        self.cloud.wait_until_ready()
        # Nobody heals it by himself: who knows whether somebody goes on.
        time.sleep(10)
        self.assertEqual('PENDING_UPDATE', self.get_provisioning_status(lb))
        self.assertFalse(self.listens(members[1], 81))
        self.assertEqual(members, self.get_members())
        report = probe.stop()
        self.assertEqual(0, report.failed, report)
        # A glitch heals all the same.
        with self.without_front_end(members[0]):
            self.wait_until(members[0], 'DRAINING')
            self.assertServes(lb)
        self.wait_until(members[0], 'ACTIVE')
        self.assertEqual('PENDING_UPDATE', self.get_provisioning_status(lb))
        self.assertEqual(members, self.get_members())
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        self.restore(lb, 81)

        # Nobody takes a change: it has failed, and they are told anew.
        with self.unreached(*members.values()):
            self.add_listener(lb, 82)
            self.cloud.wait_for(
                lambda: self.api.find_listener(
                    'port82').provisioning_status == 'ERROR',
                'an ERROR', 120)
        self.wait_until_told(lb)
        self.assertServes(lb, 81)
        self.assertEqual(members, self.get_members())
        report = probe.stop()
        self.assertEqual(0, report.failed, report)

# SPDX-License-Identifier: Apache-2.0

"""Amphorae as operators have them: Octavia's image, in virtual machines."""

import dataclasses
from importlib import metadata
import time

import sqlalchemy as sa

from tests.cloud import clusters
from tests.cloud.compute import machine
from tests.cloud.world import parts
from tests.functional import real

_CERTIFICATES = '/var/lib/octavia/certs'
# Seconds: than a held connection waits for an answer.
_LONGER = 70


class TestSingle(real.RealTestCase):

    def get_certificates(self, amphora):
        """Return what is there, and what file system that is."""
        return [amphora.run_in_guest(*command).stdout.split() for command in (
            ('ls', _CERTIFICATES),
            ('findmnt', '-n', '-o', 'SOURCE,FSTYPE', _CERTIFICATES))]

    def test_list(self):
        cloud = self.make_cloud()
        load_balancer = self.add_load_balancer('single')
        (amphora_id, amphora), = self.get_machines(load_balancer).items()
        self.assert_answers(load_balancer)
        self.wait_until_online(load_balancer)
        amphora.wait_until_up()
        # What Octavia's elements put there.
        self.assertEqual('active', amphora.run_in_guest(
            'systemctl', 'is-active', 'certs-ramfs').stdout.strip())
        old = [f'{cloud.addresses[1]}:5555']
        self.assertEqual(old, self.get_list(amphora))

        # A health manager moves.
        agent = self.get_agent_pid(amphora)
        probe = self.client.start_probe(load_balancer.vip_address, rate=5,
                                        timeout=10)
        new = self.move_health_manager()
        self.wait_until_adopted(amphora_id, new)
        # It takes what is uploaded without a restart, and haproxy does not
        # notice.
        self.assertEqual(agent, self.get_agent_pid(amphora))
        report = probe.stop()
        self.assertEqual(0, report.failed, report.errors)
        self.assertTrue(report.requests)

        # After a reboot it has the same list, though its file system of
        # certificates is made anew.
        marker = f'{_CERTIFICATES}/marker'
        amphora.run_in_guest('touch', marker)
        self.reboot(amphora)
        cloud.wait_for(
            lambda: self.get_agent_pid(amphora) != '0', 'agent')
        self.assertEqual(new, self.get_list(amphora))
        self.assertEqual(
            [['lost+found'], ['/dev/mapper/certfs-ramfs', 'ext2']],
            self.get_certificates(amphora))
        cloud.wait_for(
            lambda: not self.client.namespace.run(
                'curl', '-sS', '--max-time', '5',
                f'http://{load_balancer.vip_address}/',
                check=False).returncode, 'answer after the reboot')
        self.assert_answers(load_balancer)
        # Nobody took it for dead, or uploaded anything.
        self.assertEqual([amphora_id], list(self.get_machines(load_balancer)))
        self.assertEqual('ADOPTED', self.get_adoptions()[amphora_id])


class ReplacementTestCase(real.RealTestCase):

    def check_replaced(self, topology, apparmor=False, release=None):
        """Clients of HTTP and UDP do not notice.

        :param apparmor: whether the newer image enforces AppArmor's profiles.
        :param release: of the agent of the older image.
        :returns: the machines that came.
        """
        cloud = self.make_cloud(release=release)
        members = parts.make_members(*self.members)
        load_balancer = self.add_load_balancer('web', topology, listeners=[
            parts.make_listener(parts.make_pool(members, healthmonitor=None)),
            parts.make_listener(parts.make_pool(
                members, protocol='UDP', healthmonitor=None), 'UDP', 81)])
        self.assert_answers(load_balancer)
        self.wait_until_online(load_balancer)
        old = set(self.get_machines(load_balancer))
        if release:
            addresses = self.move_health_manager()
            for amphora_id in old:
                self.wait_until_adopted(amphora_id, addresses)
        second = cloud.add_image('second', like=dataclasses.replace(
            self.get_image(), apparmor=apparmor))
        probes = [self.client.start_probe(
            load_balancer.vip_address, port, 10, 10, scheme)
            for port, scheme in ((80, 'http'), (81, 'udp'))]
        cloud.command('octavia-hmsync', 'image', 'replace', load_balancer.id,
                      '--wait')
        reports = [probe.stop() for probe in probes]
        new = self.get_machines(load_balancer)
        self.assertEqual(len(old), len(new))
        self.assertFalse(old & set(new))
        with cloud.engine.connect() as connection:
            self.assertEqual({second.id}, set(connection.execute(sa.text(
                "SELECT image_id FROM amphora WHERE status = 'ALLOCATED'"))
                .scalars()))
        self.assert_answers(load_balancer)
        # What is under way when the VIP moves is cut.
        for report in reports:
            self.assertTrue(report.requests)
            self.assertLessEqual(report.failed, 2, report)
            self.assertLess(report.dark, 1, report)
        return new.values()


class TestSingleReplaced(ReplacementTestCase):

    def test_single(self):
        amphora, = self.check_replaced('SINGLE', apparmor=True)
        profiles = amphora.run_in_guest(
            'cat', '/sys/kernel/security/apparmor/profiles').stdout
        self.assertIn('(enforce)', profiles)
        # Debian confines none of what an amphora runs.
        for program in ('amphora-agent', 'haproxy'):
            pid = amphora.run_in_guest(
                'pgrep', '-o', '-f', program).stdout.strip()
            self.assertEqual('unconfined', amphora.run_in_guest(
                'cat', f'/proc/{pid}/attr/apparmor/current').stdout.strip())


class TestOtherAgent(ReplacementTestCase):

    def test_single(self):
        """It comes from, or from after, an upgrade of the controllers."""
        self.check_replaced('SINGLE', release='2026.2' if metadata.version(
            'octavia').startswith('16.') else '2025.1')


class TestPairReplaced(ReplacementTestCase):

    def test_pair(self):
        self.check_replaced('ACTIVE_STANDBY')


class TestCluster(real.RealTestCase):

    def assert_silent(self, member):
        """Check that a member has the VIP, and what has it say nothing."""
        rules = member.run_inside('nft', 'list', 'ruleset').stdout
        self.assertIn('hook egress', rules)
        self.assertIn('tcp sequence set 0', rules)
        self.assertEqual(['1', '2'], [member.run_inside(
            'sysctl', '-n', f'net.ipv4.conf.all.{name}').stdout.strip()
            for name in ('arp_ignore', 'arp_announce')])
        self.assertIn(f'inet {self.made.vip_address}/32', member.run_inside(
            'ip', 'address', 'show', 'lo').stdout)

    def choose(self):
        """Return the member with most connections, and their ports."""
        sessions = self.cloud.get_sessions(self.made)
        chosen = max(sessions, key=lambda each: len(sessions[each]))
        return chosen, sessions[chosen]

    def gets_clients(self, amphora_id):
        held = self.client.hold(self.made.vip_address, 10)
        try:
            held.wait_until_open()
            sessions = self.cloud.get_sessions(self.made)
            return sessions.get(amphora_id, set()) & held.report().opened
        finally:
            held.stop()

    def test_members(self):
        """One reboots, and then the other one loses its power."""
        cloud = self.make_cloud(clusters.ClusterOctavia)
        self.made = cloud.add_cluster('cluster', self.members, wait=False)
        cloud.wait_until_active(self.made.id, machine.BOOT)
        self.assert_answers(self.made)
        there = self.get_machines(self.made)
        self.assertEqual(2, len(there))
        for member in there.values():
            self.assert_silent(member)
        held = self.client.hold(self.made.vip_address, 20, timeout=60)
        held.wait_until_open(120)
        probe = self.client.start_probe(self.made.vip_address, rate=10,
                                        timeout=10)
        reboots, lost = self.choose()
        self.reboot(there[reboots])
        cloud.wait_for(lambda: self.gets_clients(reboots),
                       'clients after the reboot', machine.BOOT)
        self.assert_silent(there[reboots])
        self.assertLessEqual(set(held.report().broken), lost)
        dead, lost_now = self.choose()
        there[dead].kill_tree()
        cloud.wait_for(lambda: cloud.get_serving(self.made) == set(there) -
                       {dead}, 'end of the dead one', machine.BOOT)
        time.sleep(_LONGER)
        report = probe.stop()
        self.assertTrue(report.requests)
        self.assertLess(report.dark, 10, report)
        self.assertLessEqual(set(held.stop().broken), lost | lost_now)


class TestOVNCluster(real.RealTestCase):

    def count_flows(self, member):
        """Return how many UDP flows the LVS of a member has had.

        At the VIP and at its own address, in any order.
        """
        return sum(int(line.split()[2]) for line in member.run_inside(
            'ipvsadm', '-L', '-n', '--stats', '--exact').stdout.splitlines()
            if line.startswith('UDP'))

    def probe_both(self, seconds):
        """Return what clients of HTTP and UDP saw."""
        probes = [self.client.start_probe(
            self.made.vip_address, port, 10, 10, scheme)
            for port, scheme in ((80, 'http'), (81, 'udp'))]
        time.sleep(seconds)
        return [probe.stop() for probe in probes]

    def assert_shared(self, members):
        """Check that all members have flows, and that no request fails."""
        # LVS is the last that begins to serve in a member.
        self.cloud.wait_for(
            lambda: self.probe_both(2) and all(map(self.count_flows, members)),
            'flows of UDP in each member', machine.BOOT)
        before = [self.count_flows(member) for member in members]
        for report in self.probe_both(_LONGER):
            self.assertTrue(report.requests)
            self.assertEqual(0, report.failed, report)
        for member, number in zip(members, before, strict=True):
            self.assertGreater(self.count_flows(member), number + 100)

    def lose_host(self, dead):
        """Have a member's compute host die, with what tells OVN of it."""
        self.cloud.compute.dead_hosts.add(dead.host)
        self.cloud.networking.chassis[dead.host].controller.kill()
        dead.kill_tree()

    def test_udp(self):
        """OVN has each flow at one member, whose LVS has it at one server.

        Then the host of one of them is lost, and another one comes elsewhere.
        """
        cloud = self.make_cloud(
            clusters.OVNClusterOctavia,
            # Neutron has nodes answer half as often.
            neutron_options={'DEFAULT': {'agent_down_time': 20}},
            # Nothing else tells that a host is lost: OVN has no news of it.
            options={'health_manager': {'heartbeat_timeout': 120}})
        members = parts.make_members(*self.members)
        self.made = cloud.add_cluster('cluster', wait=False, listeners=[
            parts.make_listener(parts.make_pool(members, healthmonitor=None)),
            parts.make_listener(parts.make_pool(
                members, protocol='UDP', healthmonitor=None), 'UDP', 81)])
        cloud.wait_until_active(self.made.id, machine.BOOT)
        self.assert_answers(self.made)
        there = self.get_machines(self.made)
        self.assert_shared(there.values())
        dead = next(each for each in there
                    if there[each].host != self.client.host)
        self.lose_host(there.pop(dead))
        cloud.wait_for(lambda: cloud.get_serving(self.made) == set(there),
                       'end of the dead one', machine.BOOT)
        for report in self.probe_both(_LONGER):
            self.assertTrue(report.requests)
            self.assertEqual(0, report.failed, report)
        cloud.wait_for(lambda: len(cloud.get_serving(self.made)) == 2,
                       'another one', machine.BOOT)
        there = self.get_machines(self.made)
        there.pop(dead, None)
        self.assertEqual([self.client.host] * 2,
                         [each.host for each in there.values()])
        self.assert_shared(there.values())

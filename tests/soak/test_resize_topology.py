# SPDX-License-Identifier: Apache-2.0

"""A SINGLE load balancer becomes a pair, and SINGLE again, under clients."""

import sys

import sqlalchemy as sa

from tests.cloud import machines
from tests.cloud import octavia
from tests.functional import fleets
from tests.functional import images

ROLES = {'SINGLE': ['STANDALONE'], 'ACTIVE_STANDBY': ['BACKUP', 'MASTER']}
OTHER = {'SINGLE': 'ACTIVE_STANDBY', 'ACTIVE_STANDBY': 'SINGLE'}


class TestTopology(images.ImageTestCase):
    """On OVN, which enforces what security groups say of VRRP.

    A router of OVN learns in its own way which amphora has a VIP.
    """

    def make_cloud(self):
        return octavia.Octavia(network='ovn', workers=1)

    def make_machines(self):
        super().make_machines()
        network, _subnet = self.cloud.add_network(
            'other', '10.2.0.0/24', '10.2.0.1', router=self.cloud.router)
        self.routed = self.useFixture(machines.Client(
            self.cloud, 'routed', network))

    def assertIs(self, topology, lb):
        """Check that it is as a load balancer that was made so."""
        self.wait_until_online(lb)
        found = self.look_at(lb)
        self.assertEqual(('ACTIVE', 'ONLINE'), found['status'])
        self.assertEqual([('ALLOCATED', role, False)
                          for role in ROLES[topology]],
                         sorted((row[0], row[3], bool(row[4]))
                                for row in found['amphorae'].values()))
        self.assertEqual(1, len(found['holders']), found)
        with self.cloud.engine.connect() as connection:
            row, = connection.execute(sa.text(
                'SELECT topology, vrrp_group.load_balancer_id FROM '
                'load_balancer LEFT JOIN vrrp_group ON load_balancer_id = id'))
        self.assertEqual(
            (topology, lb.id if topology == 'ACTIVE_STANDBY' else None),
            tuple(row))

    def find_cut(self, changes, requests):
        """Return requests that failed, or were sent again, as the VIP moved.

        As a port goes later, packets of others get lost: see
        machines.PATIENCE.
        """
        begin = [each.time for each in changes if each.holds][1] - 1
        end = next(each.time for each in changes if not each.holds) + 5
        return [each for each in requests if not each.kept and
                begin < each.began < end and
                (each.error or each.duration >= 1)]

    def test_there_and_back(self):
        lb = self.add_load_balancer()
        counts = self.count()
        for topology in ('ACTIVE_STANDBY', 'SINGLE'):
            flavor = self.cloud.add_flavor(loadbalancer_topology=topology)
            held = self.client.hold(lb.vip_address, 5)
            held.wait_until_open(60)
            routed = self.routed.start_probe(lb.vip_address, rate=20,
                                             timeout=machines.PATIENCE)
            with self.under_probe(lb, timeout=machines.PATIENCE) as seen:
                self.cloud.command('octavia-hmsync', 'resize', lb.id,
                                   '--flavor', flavor, '--reason', 'changes',
                                   '--wait')
            reports = seen.report, routed.stop()
            print(topology, *reports, seen.holders, held.stop(),
                  file=sys.__stderr__)
            for report, requests in zip(
                    reports, (seen.requests, routed.requests), strict=True):
                self.assertHardlyNoticed(report)
                cut = self.find_cut(seen.changes, requests)
                self.assertLessEqual(len(cut), 2, cut)
            self.assertNotIn(0, seen.holders)
            self.assertIs(topology, lb)
            # Octavia's own failover builds by the new topology.
            self.api.failover_load_balancer(lb.id)
            self.cloud.wait_until_active(lb.id)
            self.assertIs(topology, lb)
        self.assertEqual(counts, self.count())


# Of each: where the housekeeper dies, and how the replacement ends.
BACK, DONE = 'SKIPPED', 'DONE'
TO_PAIR = (
    ('after lock$', BACK),
    ('after built .*-compute-wait', BACK),
    # Both are built.
    ('before enter PROVE$', BACK),
    ('after set_interface', BACK),
    ('after enter SWITCH$', DONE),
    # keepalived of one of them runs.
    ('after agent .* PUT vrrp/start', DONE),
    # Both sides have the VIP.
    ('before agent .* POST plug/network', DONE),
    ('after enter PROVE_SWITCHED', DONE),
    ('after enter DELETE_OLD', DONE),
    ('after set_gone', DONE),
    ('before unlock', DONE),
    ('after unlock', DONE))
TO_SINGLE = (
    ('after built .*-compute-wait', BACK),
    ('after enter PROVE$', BACK),
    ('after agent .* PUT config', DONE),
    # The holder does not repeat its announcement any more.
    ('after agent .* PUT vrrp/start', DONE),
    # Both sides have the VIP.
    ('after agent .* POST plug/network', DONE),
    # The standby has stopped, the holder has not.
    ('after agent .* PUT vrrp/stop', DONE),
    ('after enter PROVE_SWITCHED', DONE),
    ('after enter DELETE_OLD', DONE),
    # One of two is deleted.
    ('after set_gone', DONE),
    ('after unlock', DONE))


class TestKilled(fleets.FleetTestCase):
    """A housekeeper dies at each step; another one goes on, or back."""

    topologies = ('SINGLE',) * 2
    # What they get.
    topology = 'ACTIVE_STANDBY'

    def begin(self, load_balancer, image, replacement_id=None, forced=False):
        del forced
        return super().begin(load_balancer, image, replacement_id,
                             cause='TOPOLOGY', cause_value=self.topology)

    def change(self, topology, load_balancers):
        """Give them a topology, without any bad luck."""
        self.topology = topology
        begun = [self.begin(each, self.target) for each in load_balancers]
        for each in begun:
            with self.noted(f'to {topology}'):
                self.assertDone(self.wait_until_ended(each))
        for each in load_balancers:
            self.assertSane(f'to {topology}', each)

    def assertSane(self, case, load_balancer):
        with self.noted(case):
            self.cloud.wait_for(
                lambda: {row['status'] for row in self.amphorae(
                    load_balancer).values()} == {'ALLOCATED'} and
                len(self.holders(load_balancer)) == 1,
                lambda: f'sane state: {self.look_at(load_balancer)}', 40)
            self.wait_until_online(load_balancer)

    def assertNothingLeft(self, case):
        with self.noted(case):
            rows = sum(len(self.amphorae(lb)) for lb in self.fleet)
            self.cloud.wait_for(
                lambda: len(self.cloud.compute.instances) == rows,
                lambda: f'{rows} instances; there are '
                        f'{len(self.cloud.compute.instances)}', 20)

    def check(self, topology, steps):
        """Each has the other topology before, and as its case says after."""
        for n in range(0, len(steps), len(self.fleet)):
            some = dict(steps[n:n + len(self.fleet)])
            self.topology = topology
            self.assertStates(self.kill_amid({case: case for case in some}),
                              some)
            done = []
            for case, lb in zip(some, self.fleet, strict=False):
                if some[case] == DONE:
                    done.append(lb)
                with self.noted(case):
                    self.assertEqual(
                        ROLES[topology if lb in done else OTHER[topology]],
                        sorted(row['role']
                               for row in self.amphorae(lb).values()))
            self.change(OTHER[topology], done)
        self.assertEqual([], self.errors)

    def test_to_a_pair(self):
        self.check('ACTIVE_STANDBY', TO_PAIR)

    def test_to_single(self):
        self.change('ACTIVE_STANDBY', self.fleet)
        self.check('SINGLE', TO_SINGLE)

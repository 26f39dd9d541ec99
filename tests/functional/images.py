# SPDX-License-Identifier: Apache-2.0

"""What the tests of image upgrades on a whole Octavia share."""

import contextlib
import json
import time
import types

from oslotest import base
import sqlalchemy as sa

from tests.cloud import machines
from tests.cloud import octavia


class ImageTestCase(base.BaseTestCase):
    """A whole Octavia with members and a client.

    Its load balancers boot the image "first" until a test adds another one::

        lb = self.add_load_balancer('ACTIVE_STANDBY')
        before = self.look(lb)
        second = self.cloud.add_image('second')   # or like=bad_images...
        with self.under_probe(lb) as seen:
            self.cloud.command('octavia-hmsync', 'image', 'replace', lb.id,
                               '--wait')
        self.assertHardlyNoticed(seen.report)
        self.assertUpgraded(lb, second, before)
    """

    options = None
    workers = 1
    house_keepers = 1

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(self.make_cloud())
        self.cloud.wait_until_ready()
        self.api = self.cloud.connection.load_balancer
        self.make_machines()

    def make_cloud(self):
        return octavia.Octavia(options=self.options, workers=self.workers,
                               house_keepers=self.house_keepers)

    def make_machines(self):
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member{number}'))
            for number in (1, 2)]
        self.client = self.useFixture(machines.Client(self.cloud, 'client'))

    def image(self, *arguments):
        """Run octavia-hmsync image; returns what it shows.

        :raises RuntimeError: it failed; with all that it printed.
        """
        return json.loads(self.cloud.command(
            'octavia-hmsync', 'image', *arguments, '-f', 'json'))

    def add_load_balancer(self, topology='SINGLE', name=None, **kwargs):
        """Make one; returns it once it serves, and is known to be ONLINE.

        Its heartbeats have arrived then, and tell of its members.
        """
        made = self.cloud.add_load_balancer(
            name or topology.lower(), topology, self.members, **kwargs)
        self.wait_until_online(made)
        # A pair comes to that when each has waited for the other one.
        self.cloud.wait_for(lambda: self.holders(made),
                            f'{made.name} with a holder of its VIP')
        self.client.get(made.vip_address)
        return made

    def wait_until_online(self, load_balancer, timeout=60):
        self.cloud.wait_for(
            lambda: self.api.get_load_balancer(
                load_balancer.id).operating_status == 'ONLINE',
            f'{load_balancer.name} ONLINE', timeout)

    @contextlib.contextmanager
    def under_probe(self, load_balancer, rate=50, timeout=1):
        """Have the client use it meanwhile, and for a second before and after.

        :returns: what then has .report, a probe.Report, .requests, what that
                  sums up, .holders: for how many seconds how many amphorae
                  held the VIP, and .changes: when it came to which and went,
                  see tests/cloud/holders.py, until .ended_at.
        """
        seen = types.SimpleNamespace()
        holders = self.cloud.watch_holders(load_balancer)
        probe = self.client.start_probe(load_balancer.vip_address, rate=rate,
                                        timeout=timeout)
        time.sleep(1)
        try:
            yield seen
            time.sleep(1)
        finally:
            seen.report = probe.stop()
            seen.requests = probe.requests
            seen.ended_at = time.time()
            seen.holders = holders.stop()
            seen.changes = holders.changes

    def assertHardlyNoticed(self, report, switches=1):
        """Check what a client saw while the VIP of a SINGLE one moved.

        A request that is under way at that moment is cut, as the other
        amphora does not know its connection; whoever asks next is served.

        :param switches: how often the VIP moved.
        """
        self.assertLessEqual(report.failed, 2 * switches, report)
        self.assertLess(report.dark, 0.5 * max(switches, 1), report)

    # What there is

    def amphorae(self, load_balancer):
        """Rows of those that are not deleted, by id."""
        with self.cloud.engine.connect() as connection:
            rows = connection.execute(
                sa.text("SELECT * FROM amphora WHERE load_balancer_id = :id "
                        "AND status <> 'DELETED'"),
                {'id': load_balancer.id}).mappings()
            return {row['id']: dict(row) for row in rows}

    def look(self, load_balancer):
        """Return what a replacement that is taken back leaves as it was.

        Its row, its amphorae, and what the cloud has: all instances, and all
        ports but those of machines.
        """
        found = self.api.get_load_balancer(load_balancer.id)
        with self.cloud.engine.connect() as connection:
            busy = dict(connection.execute(sa.text(
                'SELECT amphora_id, busy FROM amphora_health')).all())
        return {
            'status': (found.provisioning_status, found.operating_status),
            'amphorae': {
                amphora_id: (row['status'], row['image_id'],
                             row['vrrp_priority'], row['role'],
                             busy.get(amphora_id))
                for amphora_id, row in self.amphorae(load_balancer).items()},
            'holders': self.holders(load_balancer),
            'instances': sorted(self.cloud.compute.instances),
            'ports': sorted(
                port.id for port in self.cloud.connection.network.ports())}

    def look_at(self, load_balancer):
        """As look(), of this one among others."""
        found = self.look(load_balancer)
        return {key: found[key]
                for key in ('status', 'amphorae', 'holders')}

    def count(self):
        """How many instances and ports there are."""
        return (len(self.cloud.compute.instances),
                len(list(self.cloud.connection.network.ports())))

    def holders(self, load_balancer):
        """Ids of the amphorae that have the VIP now."""
        address = load_balancer.vip_address
        holders = []
        for amphora_id in self.amphorae(load_balancer):
            instance = self.cloud.compute.by_amphora(amphora_id)
            # One that has died, or dies now, has none.
            with contextlib.suppress(OSError, IndexError):
                if instance and f' {address}/' in instance.run_inside(
                        'ip', '-o', 'address', check=False).stdout:
                    holders.append(amphora_id)
        return sorted(holders)

    def wait_until_as(self, before, load_balancer, timeout=60):
        """Wait until it is as look() saw it: nothing is left, or missing."""
        self.cloud.wait_for(
            lambda: self.look(load_balancer) == before,
            lambda: f'{load_balancer.name} as it was, {before}; it is '
                    f'{self.look(load_balancer)}', timeout)

    def assertUpgraded(self, load_balancer, image, before):
        """Check that all of its amphorae are others, and nothing is left.

        :param image: of Glance.
        :param before: what look() saw.
        """
        self.wait_until_online(load_balancer)
        after = self.look(load_balancer)
        self.assertEqual(('ACTIVE', 'ONLINE'), after['status'])
        self.assertEqual(
            [('ALLOCATED', image.id)] * len(before['amphorae']),
            [row[:2] for row in after['amphorae'].values()])
        self.assertFalse(set(before['amphorae']) & set(after['amphorae']))
        self.assertEqual(sorted(row[3] for row in before['amphorae'].values()),
                         sorted(row[3] for row in after['amphorae'].values()))
        self.assertEqual(1, len(after['holders']), after)
        for kind in ('instances', 'ports'):
            self.assertEqual(len(before[kind]), len(after[kind]), kind)
        self.assertEqual({member.name for member in self.members}, {
            self.client.get(load_balancer.vip_address) for _ in range(4)})

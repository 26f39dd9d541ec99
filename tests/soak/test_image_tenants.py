# SPDX-License-Identifier: Apache-2.0

"""Load balancers as tenants have them are replaced under their clients.

See tests/cloud/world: for each row of the table its clients notice nothing,
and afterwards all is as Octavia had plugged it. In mode failover they have a
gap, and the same afterwards.
"""

import time

from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.cloud.world import row
from tests.cloud.world import rows
from tests.functional import clones
from tests.functional import tenants

# Seconds; twice [health_manager] heartbeat_timeout of tests.cloud.octavia.
_DEAD_AFTER = 40
# A monitor of an hour takes longer than any test.
_OPTIONS = {'hmsync_image': {'replacements_at_once': 4, 'proof_timeout': 120}}


class TestTenants(tenants.TenantTestCase):
    """Some at once, on one cloud; a failure names each row and why."""

    options = _OPTIONS

    def check(self, *names):
        found = [rows.find(name) for name in names]
        for topology in (row.SINGLE, row.PAIR):
            wanted = [(each.name, topology) for each in found
                      if topology in each.topologies]
            if wanted:
                self.check_rows(*wanted)

    def test_tls_and_sessions(self):
        self.check('http', 'tls', 'app-cookie', 'source-ip',
                   'app-cookie-alone', 'source-ip-alone')

    def test_places(self):
        self.check('two-families', 'places', 'additional-vips',
                   'tls-two-families')

    def test_ipv6(self):
        """It stays: amphorae go on sending heartbeats, and none is dead."""
        made = self.check_rows(('ipv6-vip', row.SINGLE),
                               ('ipv6-vip', row.PAIR))
        before = [self.amphorae(lb).keys() for _row, lb in made]
        time.sleep(_DEAD_AFTER)
        self.assertEqual(before, [self.amphorae(lb).keys()
                                  for _row, lb in made])
        for each, lb in made:
            each.wait_until_well(self.places, lb)

    def test_rules(self):
        self.check('l7', 'allowed-cidrs', 'of-the-owner', 'flavor-and-zone')

    def test_little(self):
        self.check('disabled', 'disabled-parts', 'no-member', 'monitors')

    def test_datagrams(self):
        reason = rows.find('udp').lacks()
        if reason:
            self.skipTest(reason)
        self.check('udp')

    def test_all_are_here(self):
        """A row that is added needs a place in one of these tests."""
        with open(__file__) as source:
            text = source.read()
        self.assertEqual([], [each.name for each in rows.ROWS
                              if f"'{each.name}'" not in text])


class TestSecretsAway(tenants.TenantTestCase):
    """The secret store is away once the new amphora is built."""

    options = _OPTIONS

    def test_single(self):
        self.check_without_secrets('tls', row.SINGLE)

    def test_pair(self):
        self.check_without_secrets('tls', row.PAIR)


class TestFailover(tenants.TenantTestCase):
    """Mode failover: a gap, and all as before afterwards."""

    options = _OPTIONS

    def test_each(self):
        self.check_rows(('tls', row.SINGLE), ('two-families', row.SINGLE),
                        mode=row.FAILOVER)


class TestRollout(tenants.TenantTestCase):
    """A rollout brings all of them to an image."""

    options = _OPTIONS

    def test_rollout(self):
        made = self.add_rows(
            ('tls', row.SINGLE), ('two-families', row.SINGLE),
            ('disabled', row.SINGLE), ('no-member', row.SINGLE),
            ('ipv6-vip', row.SINGLE), ('app-cookie', row.PAIR))
        self.check_replaced(made, self.roll_out)

    def roll_out(self, _image):
        self.cloud.command(
            'octavia-hmsync', 'image', 'rollout', 'start', '--canaries', '1',
            '--parallel', '4', '--watch-time', '5')
        rollout_id = rollout_repo.get_active(self.cloud.engine).id
        self.cloud.wait_for(
            lambda: rollout_repo.get(
                self.cloud.engine, rollout_id).state not in ('RUNNING',),
            lambda: f'end of {rollout_repo.get(self.cloud.engine, rollout_id)}'
                    f' {self.rows(rollout_id)}', 600)
        found = rollout_repo.get(self.cloud.engine, rollout_id)
        self.assertEqual('DONE', found.state, found)
        return {each.load_balancer_id: each.id
                for each in self.rows(rollout_id)}

    def rows(self, rollout_id):
        return replace_repo.get_of_rollout(self.cloud.engine, rollout_id)


class TestClones(tenants.TenantTestCase):
    """A clone serves the same clients at its own address."""

    def test_clones(self):
        tenant = self.useFixture(clones.Tenant(self.cloud))
        made = self.add_rows(
            ('tls', row.SINGLE), ('l7', row.SINGLE),
            ('two-families', row.SINGLE), ('additional-vips', row.SINGLE),
            ('disabled-parts', row.SINGLE), ('allowed-cidrs', row.SINGLE),
            ('of-the-owner', row.SINGLE), ('app-cookie', row.PAIR))
        problems = {}
        for each, source in made:
            with each.use(self.places, source) as seen:
                shown = tenant.clone('create', source.id,
                                     '--without-floating-ip')
                try:
                    each.wait_until_well(self.places, self.api.
                                         get_load_balancer(shown['clone']))
                except AssertionError as e:
                    problems[source.name] = [str(e).splitlines()[0]]
            failed = {what: report for what, report in seen.reports.items()
                      if report.failed}
            if failed or shown['phase'] != 'READY':
                problems.setdefault(source.name, []).extend([shown, failed])
        self.assertEqual({}, problems)

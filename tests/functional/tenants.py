# SPDX-License-Identifier: Apache-2.0

"""What tests of load balancers as tenants have them share."""

import contextlib

from oslo_utils import uuidutils

from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import tenant_secrets
from tests.cloud.world import picture
from tests.cloud.world import places
from tests.cloud.world import row as row_
from tests.cloud.world import rows
from tests.functional import replacements

# Of a client; see ImageTestCase.assertHardlyNoticed().
_FAILED = 2
# Seconds.
_DARK = 0.5
_TIMEOUT = 300


class TenantTestCase(replacements.ReplacementTestCase):
    """Rows of the table are replaced, each under the clients it has."""

    options = {'hmsync_image': {'replacements_at_once': 8}}

    def make_cloud(self):
        self.secrets = self.useFixture(tenant_secrets.Secrets())
        return octavia.Octavia(
            options=octavia_conf.merge(self.secrets.octavia_options(),
                                       self.options),
            neutron_options=places.NEUTRON, workers=self.workers,
            house_keepers=self.house_keepers)

    def make_machines(self):
        self.places = self.useFixture(places.Places(self.cloud, self.secrets))
        self.members, self.client = self.places.near, self.places.client

    def check_rows(self, *wanted, mode=row_.REPLACE, timeout=_TIMEOUT):
        """Make load balancers, and replace the amphorae of all at once.

        Fails with all that is not as it was, or that a client noticed.

        :param wanted: (name of a row, topology) pairs.
        :param timeout: seconds, for each replacement.
        :returns: (Row, load balancer) pairs.
        """
        def replace(image):
            begun = {lb.id: self.begin(lb, image, mode=mode)
                     for _row, lb in made}
            for each in begun.values():
                # What has not ended is named below.
                with contextlib.suppress(AssertionError):
                    self.wait_until_ended(each, timeout)
            return begun
        made = self.add_rows(*wanted)
        self.check_replaced(made, replace, mode)
        return made

    def add_rows(self, *wanted):
        """Make load balancers.

        :param wanted: (name of a row, topology) pairs.
        :returns: (Row, load balancer) pairs.
        """
        found = [(rows.find(name), topology) for name, topology in wanted]
        return [(row, row.add(self.places, topology))
                for row, topology in found]

    def check_replaced(self, made, replace, mode=row_.REPLACE):
        """Check what replacements of all at once do to those that are made.

        :param made: (Row, load balancer) pairs.
        :param replace: gets the image and has them replaced; returns the ids
                        of the replacements, by load balancer.
        """
        before = {lb.id: self.take(lb) for _row, lb in made}
        image = self.cloud.add_image(f'new-{uuidutils.generate_uuid()}')
        with contextlib.ExitStack() as stack:
            seen = {lb.id: stack.enter_context(row.use(self.places, lb))
                    for row, lb in made}
            begun = replace(image)
        problems = {}
        for row, lb in made:
            print(lb.name, mode, seen[lb.id].reports, seen[lb.id].holders)
            found = [*self._find_ends(lb, begun[lb.id], image),
                     *self._find_changes(row, lb, before[lb.id])]
            if mode == row_.REPLACE:
                found += self._find_noticed(lb, before, seen[lb.id])
            if found:
                problems[lb.name] = found
        self.assertEqual({}, problems)

    def check_without_secrets(self, name, topology, timeout=_TIMEOUT):
        """Replace one whose secrets are away from PROVE on.

        It may fail; nothing that serves is touched without its certificates.
        """
        row = rows.find(name)
        lb = row.add(self.places, topology)
        before = self.take(lb)
        image = self.cloud.add_image(f'new-{uuidutils.generate_uuid()}')
        away = self.cloud.steps.at('before enter PROVE$',
                                   lambda _step: self.secrets.go_away())
        with row.use(self.places, lb) as seen:
            ended = self.wait_until_ended(self.begin(lb, image), timeout)
        self.assertTrue(away.is_set())
        self.secrets.come_back()
        print(lb.name, ended, seen.reports, seen.holders)
        self.assertEqual(
            [], [*self._find_changes(row, lb, before),
                 *self._find_noticed(lb, {lb.id: before}, seen)])

    def take(self, load_balancer):
        return picture.take(self.cloud, load_balancer.id)

    def _find_ends(self, lb, replacement_id, image):
        found = self.get(replacement_id)
        if (found.state, found.reason) != ('DONE', None):
            yield f'{found.state} in {found.phase}: {found.reason}'
        rows_ = self.amphorae(lb).values()
        if {(each['status'], each['image_id']) for each in rows_} != {
                ('ALLOCATED', image.id)}:
            yield f'amphorae {[(r["status"], r["image_id"]) for r in rows_]}'
        status = self.api.get_load_balancer(lb.id).provisioning_status
        if status != 'ACTIVE':
            yield f'it is {status}'

    def _find_changes(self, row, lb, before):
        try:
            row.wait_until_well(self.places, lb, 60)
        except AssertionError as e:
            yield f'not well: {str(e).splitlines()[0]}'
        changed = picture.compare(before, self.take(lb))
        for what, (went, came) in sorted(changed.items()):
            yield f'{what}: without {went}, with {came}'

    def _find_noticed(self, lb, before, seen):
        switches = len([what for what in before[lb.id]
                        if what.endswith(' haproxy')])
        for what, report in seen.reports.items():
            wrong = [error for error in report.errors if 'answer' in error]
            # haproxy that is loaded anew asks its peers for their tables as
            # it serves already: a request meanwhile may go elsewhere, one at
            # each switch.
            if (len(wrong) > switches or
                    report.dark >= _DARK * switches or
                    switches == 1 and report.failed > _FAILED):
                yield f'{what}: {report}'
        if switches == 1 and seen.holders.get(0, 0):
            yield f'holders {seen.holders}'

# SPDX-License-Identifier: Apache-2.0

"""A replacement, and others who want something of the load balancer."""

from openstack import exceptions as sdk_exc

from tests.functional import fleets


class RaceTestCase(fleets.FleetTestCase):

    def kill_amphora(self, which):
        """Return an action that cuts the power of an amphora.

        :param which: called with the row of the replacement, for its id.
        """
        def kill(step):
            self.cloud.compute.by_amphora(
                which(self.get(step.whose))).kill_tree()
        return kill

    def other(self, row):
        """Return the id of the one of a pair of which it is not about."""
        found = [amphora_id for lb in self.fleet
                 if lb.id == row.load_balancer_id
                 for amphora_id in self.amphorae(lb)
                 if amphora_id not in (row.old_amphora_id,
                                       row.new_amphora_id)]
        return found[0]

    def first(self, row):
        """Return the id of the only amphora, before anything is recorded."""
        return next(amphora_id for lb in self.fleet
                    if lb.id == row.load_balancer_id
                    for amphora_id in self.amphorae(lb))

    def check_deaths(self, actions, expected):
        ended = self.run_cases(actions)
        for case, lb in zip(actions, self.fleet, strict=False):
            print(case, ended[case].state, ended[case].reason)
            # Octavia's own failover, where one died that stayed.
            self.assertSane(case, lb, 200)
            self.client.get(lb.vip_address)
        self.assertStates(ended, expected)
        self.assertNothingLeft('deaths')
        self.assertEqual([], self.errors)


def old(row):
    return row.old_amphora_id


def new(row):
    return row.new_amphora_id


class TestSingleRaces(RaceTestCase):

    topologies = ('SINGLE',) * 5

    def test_deaths(self):
        self.check_deaths({
            'old before LOCK': ('before lock$',
                                self.kill_amphora(self.first)),
            'old in BUILD': ('before built .*-compute-wait',
                             self.kill_amphora(old)),
            'new in PROVE': ('after enter PROVE$', self.kill_amphora(new)),
            'new in SWITCH': ('after agent .* POST plug/network',
                              self.kill_amphora(new)),
            'old in SWITCH': ('after agent .* POST plug/network',
                              self.kill_amphora(old)),
            # A new amphora takes the place of the only one.
        }, {'old before LOCK': 'DONE', 'old in BUILD': 'DONE',
            'new in PROVE': 'FAILED', 'new in SWITCH': 'FAILED',
            'old in SWITCH': 'DONE'})

    def refused(self, function, *arguments, **kwargs):
        try:
            function(*arguments, **kwargs)
        except sdk_exc.ConflictException:
            return
        self.note(f'{function} was not refused')

    def test_tenants(self):
        lb, deleted = self.fleet[:2]

        def want(step):
            self.refused(self.api.update_load_balancer, lb.id, name='new')
            self.refused(self.api.delete_load_balancer, lb.id, cascade=True)
            self.refused(self.api.create_listener, load_balancer_id=lb.id,
                         protocol='HTTP', protocol_port=8080)

        def delete(step):
            self.api.delete_load_balancer(deleted.id, cascade=True)

        with self.under_probes({'locked': lb}):
            ended = self.run_cases({'locked': ('after enter PROVE$', want),
                                    'deleted': ('before lock$', delete)})
        self.assertStates(ended, {'locked': 'DONE', 'deleted': 'SKIPPED'})
        self.assertSane('locked', lb)
        self.api.update_load_balancer(lb.id, name='single-new')
        self.cloud.wait_until_active(lb.id)
        self.cloud.wait_for(
            lambda: deleted.id not in {
                each.id for each in self.api.load_balancers()}, 'deletion')
        self.assertFalse(self.amphorae(deleted))
        self.assertEqual([], self.errors)


class TestPairRaces(RaceTestCase):

    topologies = ('ACTIVE_STANDBY',) * 3

    def test_deaths(self):
        self.check_deaths({
            'other in BUILD': ('before built .*-compute-wait',
                               self.kill_amphora(self.other)),
            'new in SWITCH': ('after enter SWITCH$',
                              self.kill_amphora(new)),
            'old in SWITCH': ('after enter SWITCH$',
                              self.kill_amphora(old)),
        }, {'other in BUILD': 'SKIPPED', 'new in SWITCH': 'FAILED',
            'old in SWITCH': 'SKIPPED|DONE'})

    def test_tenant_between(self):
        """A change of the owner's between the two amphorae is waited for."""
        lb = self.fleet[0]
        with self.under_probes({'between': lb}):
            ended = self.run_cases({'between': (
                'after unlock', lambda step: self.api.update_load_balancer(
                    lb.id, description='changed'))})
        self.assertStates(ended, {'between': 'DONE'})
        self.assertSane('between', lb)
        self.assertEqual([], self.errors)

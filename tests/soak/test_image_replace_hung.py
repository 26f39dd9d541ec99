# SPDX-License-Identifier: Apache-2.0

"""A service that takes connections and answers nothing, amid a replacement.

It ends well or is as it was, once the service answers again; no client
notices either.
"""

import threading

from tests.functional import fleets

# Longer than one request to an agent may take.
_SECONDS = 40


class TestHung(fleets.FleetTestCase):

    topologies = ('SINGLE',)

    def check(self, service, step):
        """Have a service hang from a step of a replacement on."""
        lb = self.fleet[0]
        case = f'{type(service).__name__} {step}'
        timers = []

        def hang(_step):
            service.pause()
            timer = threading.Timer(_SECONDS, service.resume)
            timer.start()
            timers.append(timer)

        self.addCleanup(service.resume)
        self.cloud.steps.clear()
        happened = self.cloud.steps.at(step, hang)
        with self.under_probes({case: lb}):
            row = self.replace(lb, self.target, forced=True)
            self.assertTrue(happened.is_set(), case)
            for timer in timers:
                timer.join()
            self.assertSane(case, lb, 90)
        print(case, row.state, row.reason)
        if row.state != 'DONE' and not row.reason:
            self.note(f'{case}: {row.state} without a reason')
        self.assertNothingLeft(case)

    def test_neutron(self):
        for step in ('before POST .*/ports', 'after enter SWITCH$',
                     'before DELETE .*/ports'):
            self.check(self.cloud.neutron, step)
        self.assertEqual([], self.errors)

    def test_database(self):
        for step in ('after enter PROVE$', 'after enter SWITCH$',
                     'after enter DELETE_OLD'):
            self.check(self.cloud.database.server, step)
        self.assertEqual([], self.errors)


class TestHungForGood(fleets.FleetTestCase):
    """No request waits for ever, and the row says what is left.

    Without the options each waits for a minute.
    """

    topologies = ('SINGLE',)
    options = {**fleets.FleetTestCase.options, 'neutron': {'timeout': 3}}

    def test_neutron(self):
        lb = self.fleet[0]
        self.addCleanup(self.cloud.neutron.resume)
        self.cloud.steps.clear()
        self.cloud.steps.at('before DELETE .*/ports',
                            lambda _step: self.cloud.neutron.pause())
        with self.under_probes({'for good': lb}):
            row = self.replace(lb, self.target, timeout=300, forced=True)
        self.cloud.neutron.resume()
        print(row.state, row.reason)
        self.assertEqual('DONE', row.state)
        self.assertIn('Could not be deleted: port ', row.reason)
        self.assertSane('for good', lb, 90)
        self.cloud.command('octavia-hmsync', 'image', 'leaks', '--older-than',
                           '0.001', '--delete')
        self.assertNothingLeft('for good')
        self.assertEqual([], self.errors)

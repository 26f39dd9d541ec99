# SPDX-License-Identifier: Apache-2.0

"""Nova, Neutron or Keystone is away while an amphora goes.

From each request of DELETE_OLD and BACK on: for a moment, and for as long as
it takes. No client notices, and what goes never has the VIP again.
"""

import dataclasses
import itertools
import json
import threading
import time

from oslo_utils import uuidutils

from octavia_hmsync.image.db import cancel as cancel_repo
from tests.cloud.compute import bad_images
from tests.cloud import holders
from tests.cloud import octavia
from tests.cloud import steps
from tests.functional import fleets

COMPUTE, NEUTRON, KEYSTONE = 'compute', 'neutron', 'keystone'
# Seconds.
MOMENT = 10
# Seconds; when the other one of a pair goes, its VIP is on both, or on none,
# until the one hears the other.
_HANDOVER = 0.5


@dataclasses.dataclass(frozen=True)
class Case:
    """A service that is away.

    :param service: COMPUTE, NEUTRON or KEYSTONE.
    :param phase: of a replacement.
    :param number: the request of the phase with which it begins, from 0.
    :param seconds: for how long; None for as long as the phase lasts, or
                    until the row has told of it for a while.
    :param turn: of which amphora of a pair, from 1.
    """

    service: str
    phase: str
    number: int
    seconds: float | None
    turn: int = 1

    def __str__(self):
        how_long = 'ever' if self.seconds is None else f'{self.seconds} s'
        return (f'{self.service} from request {self.number} of {self.phase} '
                f'{self.turn} on, for {how_long}')


class Outage:
    """Has a Case happen to one replacement.

    :param test: an AwayTestCase.
    :param case: a Case.
    :param whose: the id of the replacement.
    """

    def __init__(self, test, case, whose):
        self._test = test
        self._case = case
        self._whose = whose
        self._left = case.number
        self._lock = threading.Lock()
        self._over = False
        self.began = None
        self.refused = 0
        # When the phase began, and the id of the amphora that is to go.
        self.entered = self.doomed = None
        turns = itertools.count(1)
        test.cloud.steps.at(
            f'after enter {case.phase}$',
            lambda _step: next(turns) == case.turn and self._enter(), whose,
            2)

    def _enter(self):
        row = self._test.get(self._whose)
        self.entered = time.time()
        self.doomed = (row.new_amphora_id if self._case.phase == 'BACK'
                       else row.old_amphora_id)
        at = self._test.cloud.steps.at
        at(f'before {self._test.services[self._case.service]}', self._meet,
           self._whose, 10 ** 9)
        at('before (enter UNLOCK|unlock)$', self.end, self._whose)

    def _meet(self, _step):
        with self._lock:
            if self._left:
                self._left -= 1
                return
            now = time.monotonic()
            self.began = self.began or now
            if self._case.seconds and now - self.began > self._case.seconds:
                self._over = True
            if self._over:
                return
            self.refused += 1
        raise steps.Refused(f'{self._case.service} is away')

    def end(self, _step=None):
        self._over = True


class AwayTestCase(fleets.FleetTestCase):

    def make_cloud(self):
        return octavia.Octavia(options=self.options, workers=self.workers,
                               keystone=True)

    def setUp(self):
        super().setUp()
        self.services = {
            COMPUTE: 'compute ',
            NEUTRON: f'[A-Z]+ http://127.0.0.1:{self.cloud.neutron.port}/',
            KEYSTONE: f'[A-Z]+ http://127.0.0.1:{self.cloud.keystone.port}/'}

    def learn(self, phase, **kwargs):
        """Return how many requests a phase makes of each service."""
        self.cloud.steps.clear()
        row = self.replace(self.fleet[0], forced=True, **kwargs)
        told = [step.what for step in self.cloud.steps.seen
                if step.whose == row.id and step.when == 'before']
        begun = told.index(f'enter {phase}')
        told = told[begun:next(
            n for n, what in enumerate(told) if n > begun and
            what in ('enter UNLOCK', 'unlock'))]
        print('\n'.join(told))
        self.assertSane('uninterrupted', self.fleet[0])
        return {name: sum(what.startswith(pattern.partition('[A-Z]+ ')[0]) and
                          pattern.rpartition(' ')[2] in what for what in told)
                for name, pattern in self.services.items()}

    def make_cases(self, phase, numbers):
        """Return those of each request; one of Keystone is before each."""
        begin = {COMPUTE: [0], NEUTRON: range(numbers[NEUTRON]),
                 KEYSTONE: [0, numbers[KEYSTONE] - 1]}
        return [Case(service, phase, number, seconds)
                for service, each in begin.items() for number in each
                for seconds in (MOMENT, None)]

    def check(self, cases, expected, image=None, wish=None):
        """Have a replacement for each case, as many at once as there are.

        :param expected: how they end.
        :param image: the one that they get.
        :param wish: the phase in which an operator wants them back.
        """
        for n in range(0, len(cases), len(self.fleet)):
            self._check(dict(zip(cases[n:n + len(self.fleet)], self.fleet,
                                 strict=False)), expected, image, wish)

    def _check(self, cases, expected, image, wish):
        self.cloud.steps.clear()
        ids = {case: uuidutils.generate_uuid() for case in cases}
        outages = {case: Outage(self, case, ids[case]) for case in cases}
        if wish:
            for each in ids.values():
                self.cloud.steps.at(
                    f'after enter {wish}$', lambda step: cancel_repo.cancel(
                        self.cloud.engine, step.whose, 'as before'), each)
        rows = {}
        with self.under_probes(cases) as seen:
            for case, lb in cases.items():
                self.begin(lb, image or self.target, ids[case], forced=True)
            for case, outage in outages.items():
                if case.service == COMPUTE and case.seconds is None:
                    with self.noted(case):
                        self._wait_until_told(case, ids[case], outage)
                    outage.end()
            for case, lb in cases.items():
                with self.noted(case):
                    rows[case] = self.wait_until_ended(ids[case])
                self.assertSane(case, lb)
        for case, row in rows.items():
            print(f'{case}: {outages[case].refused} refused, {row.state}, '
                  f'{row.reason}; {seen[case].report}')
            self._check_holders(case, outages[case], seen[case])
            if not outages[case].refused:
                self.note(f'{case}: did not happen')
            if row.state != expected:
                self.note(f'{case}: {row.state}: {row.reason}')
            self._check_reason(case, row, outages[case])
        self.assertNothingLeft(f'after {[str(case) for case in cases]}')

    def _wait_until_told(self, case, replacement_id, outage):
        """End an outage once the row has told of it for a while."""
        self.cloud.wait_for(
            lambda: 'still answers, though' in (
                self.get(replacement_id).reason or ''),
            lambda: f'{case}: reason in {self.get(replacement_id)}', 240)
        refused = outage.refused
        # Each pause is twice as long as the one before.
        self.cloud.wait_for(lambda: outage.refused > refused + 2,
                            f'{case}: more tries', 120)
        row = self.get(replacement_id)
        if row.phase != case.phase:
            self.note(f'{case}: was left for {row.phase}')

    def _check_holders(self, case, outage, seen):
        """What goes never gets the VIP, which one has at each moment."""
        late = [change for change in seen.changes
                if change.holder == outage.doomed and change.holds and
                change.time > outage.entered]
        if late:
            self.note(f'{case}: {late}, since {outage.entered}')
        of_doomed = [change for change in seen.changes
                     if change.holder == outage.doomed]
        held = [change.holds for change in of_doomed
                if change.time <= outage.entered]
        # A SINGLE one takes the VIP before the other one lets go.
        since = (next(change.time for change in of_doomed
                      if change.time > outage.entered and not change.holds)
                 if held and held[-1] else outage.entered)
        number = holders.count(seen.changes, since, seen.ended_at)
        if any(seconds > _HANDOVER for many, seconds in number.items()
               if many != 1):
            self.note(f'{case}: holders {number}')

    def _check_reason(self, case, row, outage):
        """What could not be deleted is told, and the way of the docs works.

        In a moment nothing is given up.
        """
        told = 'Could not be deleted' in (row.reason or '')
        if told == (case.seconds is not None or case.service == COMPUTE):
            self.note(f'{case}: {row.state}, {row.reason}')
        if told:
            rows = json.loads(self.cloud.command(
                'octavia-hmsync', 'image', 'leaks', '--older-than', '0.001',
                '--delete', '-f', 'json'))
            print(rows)

    def check_cancelled(self):
        """Have an operator take replacements back, with each service away."""
        self.check([Case(service, 'BACK', 0, seconds)
                    for service in self.services
                    for seconds in (MOMENT, None)], 'CANCELLED',
                   wish='PROVE_SWITCHED')


class TestSingleAway(AwayTestCase):

    topologies = ('SINGLE',) * 6

    def test_delete_old(self):
        self.check(self.make_cases('DELETE_OLD', self.learn(
            'DELETE_OLD', image=self.target)), 'DONE')
        self.assertEqual([], self.errors)

    def test_back(self):
        self.check_cancelled()
        bad = self.cloud.add_image('bad', like=bad_images.fails_with_vip())
        self.check(self.make_cases('BACK', self.learn('BACK', image=bad)),
                   'FAILED', bad)
        self.assertEqual([], self.errors)


class TestPairAway(AwayTestCase):

    topologies = ('ACTIVE_STANDBY',) * 2

    def test_delete_old(self):
        numbers = self.learn('DELETE_OLD', image=self.target)
        self.check(
            [Case(COMPUTE, 'DELETE_OLD', 0, None, 1),
             Case(COMPUTE, 'DELETE_OLD', 0, None, 2),
             Case(NEUTRON, 'DELETE_OLD', 0, MOMENT, 2),
             Case(NEUTRON, 'DELETE_OLD', 0, None, 2),
             Case(NEUTRON, 'DELETE_OLD', numbers[NEUTRON] - 1, None, 1),
             Case(KEYSTONE, 'DELETE_OLD', 0, MOMENT, 2)], 'DONE')
        self.assertEqual([], self.errors)

    def test_back(self):
        self.check_cancelled()
        self.assertEqual([], self.errors)

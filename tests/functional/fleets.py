# SPDX-License-Identifier: Apache-2.0

"""Several load balancers that are replaced at once, each with its own bad
luck, while clients use them."""

import contextlib
import functools
import threading

from oslo_utils import uuidutils

from tests.cloud import waiting
from tests.functional import replacements

# Seconds for which nobody has the VIP when the holder of a pair gives it to
# the other one: one deletes the address, and one adds it.
_HANDOVER = 0.1


class FleetTestCase(replacements.ReplacementTestCase):
    """As many as .topologies has; what happens to one is a case.

    All are replaced anew in each round, whatever their image is.
    """

    options = {'hmsync_image': {'proof_timeout': 15,
                                'replacements_at_once': 8}}
    topologies = ()
    rate = 10

    def setUp(self):
        super().setUp()
        self.errors = []
        made = [self.cloud.add_load_balancer(
            f'{topology.lower()}{number}', topology, self.members, wait=False)
            for number, topology in enumerate(self.topologies)]
        self.fleet = [self.cloud.wait_until_active(each.id) for each in made]
        for each in self.fleet:
            self.wait_until_online(each)
            self.cloud.wait_for(lambda: self.holders(each), 'a holder')
        self.target, = self.cloud.connection.image.images()
        self.counts = self.count()

    def note(self, problem):
        """Take note of what is wrong; others are to be seen, too."""
        print(problem)
        self.errors.append(problem)

    @contextlib.contextmanager
    def noted(self, case):
        try:
            yield
        except AssertionError as e:
            self.note(f'{case}: {str(e)[:700]}')

    @contextlib.contextmanager
    def under_probes(self, cases):
        """Have clients use the load balancers of cases; none may notice."""
        with contextlib.ExitStack() as stack:
            seen = {case: stack.enter_context(self.under_probe(lb, self.rate))
                    for case, lb in cases.items()}
            yield seen
        for case, each in seen.items():
            # A request that is under way when the VIP moves is cut: there
            # and back, see ImageTestCase.assertHardlyNoticed().
            if (each.report.failed > 2 or each.report.dark > 1 or
                    each.holders.get(0, 0) > _HANDOVER):
                self.note(f'{case}: {each.report}, {each.holders}')

    def assertSane(self, case, load_balancer, timeout=40):
        """Check that it is as one that nobody has worked on."""
        number = 1 if 'single' in load_balancer.name else 2
        with self.noted(case):
            self.cloud.wait_for(
                lambda: self._is_sane(load_balancer, number),
                lambda: f'sane state: {self.look_at(load_balancer)}', timeout)

    def _is_sane(self, load_balancer, number):
        found = self.look_at(load_balancer)
        return (found['status'] == ('ACTIVE', 'ONLINE') and
                [(row[0], row[4]) for row in found['amphorae'].values()] ==
                [('ALLOCATED', 0)] * number and
                len(found['holders']) == 1)

    def assertNothingLeft(self, case):
        with self.noted(case):
            self.cloud.wait_for(
                lambda: self.count() == self.counts,
                lambda: f'{self.counts} instances and ports; there are '
                        f'{self.count()}', 20)

    def assertStates(self, ended, expected):
        """Check how replacements ended, by case."""
        for case, row in ended.items():
            if row.state not in expected[case].split('|'):
                self.note(f'{case}: {row.state} and not {expected[case]}: '
                          f'{row.reason}')

    def run_cases(self, actions, times=1, image=None):
        """Replace one for each case, with something done at a step of it.

        :param actions: {case: (pattern of the step, action)}.
        :returns: {case: the row of its replacement at its end}.
        """
        cases = dict(zip(actions, self.fleet, strict=False))
        ids = {case: uuidutils.generate_uuid() for case in cases}
        self.cloud.steps.clear()
        happened = {
            case: self.cloud.steps.at(*actions[case], ids[case], times)
            for case in cases}
        ended = {}
        for case, lb in cases.items():
            self.begin(lb, image or self.target, ids[case], forced=True)
        for case in cases:
            with self.noted(case):
                ended[case] = self.wait_until_ended(ids[case])
        for case, each in happened.items():
            if not each.is_set():
                self.note(f'{case} did not happen')
        return ended

    def stop_amid(self, patterns):
        """Stop the housekeeper when each is at its step; see kill_amid().

        It ends soon, and what it had claimed is free at once.
        """
        def stop(step):
            self.house_keeper_at(step).request_stop()

        def restart():
            self.assertTrue(self.cloud.housekeeping.stop(30))
            self.cloud.housekeeping.start()

        return self.kill_amid(patterns, stop, restart)

    def restart(self):
        self.cloud.housekeeping.kill_tree()
        self.lapse()
        self.cloud.housekeeping.start()

    def kill_amid(self, patterns, kill=None, restart=None, image=None,
                  since=None):
        """Kill the housekeeper when each replacement is at its step.

        :param patterns: {case: pattern of the step}, not more than there are
                         load balancers.
        :param image: the one that they get; all have that of now otherwise.
        :param since: pattern of a step from which on steps count.
        :returns: {case: the row of its replacement at its end}.
        """
        cases = dict(zip(patterns, self.fleet, strict=False))
        ids = {case: uuidutils.generate_uuid() for case in patterns}
        killed = threading.Event()
        missing = set(patterns)
        lock = threading.Lock()

        def make_action(case):
            def die(step):
                with lock:
                    missing.discard(case)
                    is_last = not missing
                if is_last:
                    (kill or self.kill)(step)
                    killed.set()
                waiting.happens(killed)
            return die

        self.cloud.steps.clear()

        def watch_for(case, _step=None):
            self.cloud.steps.at(patterns[case], make_action(case), ids[case])

        for case in patterns:
            if since:
                self.cloud.steps.at(since, functools.partial(watch_for, case),
                                    ids[case])
            else:
                watch_for(case)
        with self.under_probes(cases):
            for case, lb in cases.items():
                self.begin(lb, image or self.target, ids[case], forced=True)
            if not waiting.happens(killed):
                self.note(f'{missing} did not come to that')
                killed.set()
            (restart or self.restart)()
            ended = {}
            for case in cases:
                with self.noted(case):
                    ended[case] = self.wait_until_ended(ids[case])
            for case, lb in cases.items():
                self.assertSane(case, lb)
        self.assertNothingLeft(f'after {list(patterns)}')
        return ended

# SPDX-License-Identifier: Apache-2.0

"""Waits until a new amphora is proven to serve."""

import datetime
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import listeners
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import proof
from octavia_hmsync.image.replace import testimony
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)

# Heartbeat intervals in which members are observed before any change.
_LOOKS = 2
# Seconds between two full checks, each of which asks all agents.
_LOOK_INTERVAL = 1
# Seconds. A haproxy that dies again and again does so several times within
# them, even if heartbeats come each second.
_SHORTEST = 5
# The records of one health manager may become visible after later records
# of another one.
_LAG = datetime.timedelta(seconds=5)


class Haproxies:
    """Counts how often a running haproxy was found not to run.

    No request to an agent tells the age of haproxy, and its list of listeners
    comes from the configuration. So this asks often whether haproxy runs at
    all: a haproxy that is restarted does not run in between.
    """

    def __init__(self, work):
        self._work = work
        self._runs: dict[str, bool] = {}
        self._breaks: dict[str, int] = {}

    def find_gone(self, evidence, amphora_ids):
        """Ask some agents, each once; return problems in words."""
        if not proof.needs_haproxy(evidence):
            return []
        gone = []
        for amphora_id in amphora_ids:
            amphora = evidence.amphorae.get(amphora_id)
            if amphora is None:
                continue
            try:
                runs = self._work.agent_of(amphora).count_haproxies() > 0
            except work_.AGENT_ERRORS as e:
                # The full check, which follows soon, reports that.
                LOG.debug('%s', e)
                continue
            if not runs:
                gone.append(f'haproxy of amphora {amphora_id} does not run')
                if self._runs.get(amphora_id):
                    self._breaks[amphora_id] = self.count(amphora_id) + 1
            self._runs[amphora_id] = runs
        return gone

    def count(self, amphora_id):
        """Return how often haproxy of an amphora has ended."""
        return self._breaks.get(amphora_id, 0)


class Prover:
    """Checks a load balancer until everything is proven.

    After a proof, .is_alone tells whether all amphorae but the new one were
    dead.

    :param get_holders: called with the ids of the old and the new amphora and
                        whether the switch is done; returns the ids of possible
                        holders of the VIP.
    :param get_new_ids: returns the ids of the new amphorae; None if that of
                        the work is the only one.
    """

    def __init__(self, work, get_holders, get_new_ids=None):
        self._work = work
        self._get_holders = get_holders
        self._get_new_ids = get_new_ids or (lambda: [work.new_id])
        self._vip = None
        self._interval = work.conf.health_manager.heartbeat_interval
        self._members: dict[str, str] = {}
        self._testimony = testimony.Testimony()
        # Heartbeats from this time on count, by the database's clock.
        self._since: datetime.datetime | None = None
        self._are_members_all = False
        self._bad: set[str] = set()
        self._known_untold: set[str] = set()
        self._haproxies = Haproxies(work)
        self.is_alone = False

    def remember(self):
        """Record the state of members before any change.

        It waits until each amphora has reported the members in a heartbeat.
        If members are not recorded by amphora, it waits for two heartbeat
        intervals, as each amphora overwrites Octavia's rows. What amphorae
        report later, while the new one is built, counts as well.
        """
        evidence = self._work.read()
        self._members = evidence.members
        self._since = evidence.now
        self._testimony = testimony.Testimony()
        self._haproxies = Haproxies(self._work)
        if not evidence.down_after:
            # The load balancer has no health monitors.
            return
        deadline = time.monotonic() + _LOOKS * self._interval
        while evidence.members and time.monotonic() < deadline:
            self._work.pause()
            evidence = self._work.read()
            self._members = proof.merge_worst(self._members, evidence.members)
            self._hear(evidence)
            if evidence.amphorae.keys() <= self._testimony.heard:
                break

    def prove(self, is_switched):
        """Wait until everything is proven without a break.

        If all other amphorae died meanwhile, speed matters most: the new one
        only has to be seen to serve once.

        :raises NotProven: with what is missing, after proof_timeout.
        :raises Lost, Stopped: as Work.check().
        """
        evidence = self._work.read()
        self._testimony.is_closed = is_switched and self._since is not None
        heartbeats = (proof.HEARTBEATS_SWITCHED if is_switched
                      else proof.HEARTBEATS)
        problems = self._wait(
            [self._expect(new_id, evidence.now, is_switched)
             for new_id in self._get_new_ids()], heartbeats,
            # Before the switch its view of members was observed.
            0 if is_switched else evidence.down_after, evidence.now)
        if problems:
            raise exceptions.NotProven(
                f'The new amphora is not shown to serve: '
                f'{"; ".join(problems)}.')

    def _wait(self, expected, heartbeats, down_after, now):
        """Wait until nothing has been missing for long enough.

        :param heartbeats: how many of each amphora must come.
        :param down_after: seconds until monitors find a member down; a tenant
                           sets them, so that proof_timeout is the limit.
        """
        limit = self._work.options.proof_timeout
        steady = max(_SHORTEST, heartbeats * self._interval) + min(
            down_after, limit)
        self._vip = self._work.get_load_balancer().vip.ip_address
        self._since = self._since or now - self._get_lately()
        ids = [one.new_amphora_id for one in expected]
        self._testimony.begin(ids, now)
        deadline = time.monotonic() + limit + steady
        since = None
        # The last problems, since problems may come and go.
        problems: list[str] = []
        while time.monotonic() < deadline:
            found = self._find_problems(expected)
            others, members = self._watch(ids)
            found += others
            if self.is_alone and not found:
                return []
            restarting = self._find_restarting(ids)
            if restarting:
                self._are_members_all = False
                return restarting
            if found or members:
                since = None
                problems = found + members
                self._are_members_all = not found
                self._testimony.begin_again()
            elif since is None:
                since = time.monotonic()
            elif self._is_long_enough(ids, time.monotonic() - since, steady,
                                      heartbeats):
                return []
        return problems or ['not for long enough']

    def _get_lately(self):
        return datetime.timedelta(
            seconds=proof.HEARTBEATS_MISSED * self._interval)

    def _is_long_enough(self, ids, seconds, steady, heartbeats):
        """Tell whether nothing was wrong for long enough.

        If no health manager reports an amphora's heartbeats, Octavia's rows
        have to do.
        """
        untold = set(ids) - self._testimony.heard
        if seconds < steady or untold and (
                seconds < self._get_lately().total_seconds()):
            return False
        if any(self._testimony.count(amphora_id) < heartbeats
               for amphora_id in ids if amphora_id not in untold):
            return False
        for amphora_id in sorted(untold - self._known_untold):
            LOG.warning('What amphora %s says in its heartbeats is not told '
                        'by any health manager, so that it is taken to see '
                        'members as Octavia has them, whichever amphora saw '
                        'them last.', amphora_id)
        self._known_untold |= untold
        return True

    def _watch(self, ids):
        """Watch for a second; return (other problems, those of members)."""
        found: dict[str, None] = {}
        of_members: dict[str, None] = {}
        until = time.monotonic() + _LOOK_INTERVAL
        while time.monotonic() < until:
            evidence = self._work.read()
            faults = self._hear(evidence)
            faults.add(self._testimony.find_faults(self._want(evidence)))
            if set(ids) - self._testimony.heard:
                worse = self._find_worse(evidence)
                if worse:
                    faults.of_members.append(testimony.describe_worse(worse))
                    faults.bad.update(worse)
            asked_at = time.monotonic()
            found.update(dict.fromkeys([
                *self._haproxies.find_gone(evidence, ids),
                *faults.of_listeners]))
            of_members.update(dict.fromkeys(faults.of_members))
            if faults.of_members:
                self._bad = faults.bad
            # Leave an agent at least half of the time for other work.
            self._work.pause(max(work_.INTERVAL,
                                 time.monotonic() - asked_at))
        return list(found), list(of_members)

    def _find_restarting(self, ids):
        found = []
        for amphora_id in ids:
            breaks = max(self._haproxies.count(amphora_id),
                         self._testimony.count_breaks(amphora_id))
            if breaks >= proof.BREAKS:
                found.append(f'haproxy of amphora {amphora_id} was gone '
                             f'{breaks} times, and started again')
        return found

    def _hear(self, evidence):
        """Take reported heartbeats; return their problems."""
        faults = self._take(evidence)
        self._testimony.forget_before(evidence.now - self._get_lately())
        return faults

    def _take(self, evidence):
        views = self._work.read_views(self._since)
        if views:
            self._since = max(self._since, views[-1].seen_at - _LAG)
        return self._testimony.take(views, self._want(evidence))

    def _want(self, evidence):
        return testimony.Wanted(proof.find_served(evidence), self._members,
                                evidence.members)

    def _find_worse(self, evidence):
        """Return members that are worse in Octavia's rows.

        Without an earlier observation there is no comparison.
        """
        if not self._members:
            return []
        return proof.find_worse(self._members, evidence.members)

    def were_members_at_fault(self):
        """Tell, after the new amphora is gone, whether members were at fault.

        Members that are still worse without it have failed by themselves, or
        come and go.
        """
        if not self._are_members_all:
            return False
        until = time.monotonic() + proof.HEARTBEATS * self._interval
        while time.monotonic() < until:
            self._work.pause()
        evidence = self._work.read()
        self._take(evidence)
        others = self._testimony.get_worst()
        if others:
            return bool(self._bad) and all(
                proof.is_worse(others.get(member_id, ''), compat.ONLINE)
                for member_id in self._bad)
        return bool(self._find_worse(evidence))

    def _expect(self, new_id, since, is_switched):
        replacement = self._work.replacement
        return proof.Expectation(
            new_id, replacement.target_image_id, since,
            proof.HEARTBEATS_MISSED * self._interval,
            self._get_holders(self._work.old_id, self._work.new_id,
                              is_switched),
            self._are_listeners_told)

    @property
    def _are_listeners_told(self):
        """Whether the listeners of heartbeats are recorded."""
        return 'stats_db' in (
            self._work.conf.controller_worker.statistics_drivers)

    def _find_problems(self, expected):
        evidence = self._work.read()
        holding = self._work.find_holders(evidence.amphorae.values(),
                                          self._vip)
        ids = {one.new_amphora_id for one in expected}
        seen = []
        try:
            replaced = self._get_replaced(evidence, holding)
            for one in expected:
                new = evidence.amphorae.get(one.new_amphora_id)
                seen.append((one, proof.Seen(
                    evidence, self._work.agent_of(new).get_listeners()
                    if new is not None else {}, holding, replaced)))
        except work_.AGENT_ERRORS as e:
            return [str(e).rstrip('.')]
        self.is_alone = proof.is_alone(ids, *seen[0])
        find = (proof.find_problems_alone if self.is_alone
                else proof.find_problems)
        return list(dict.fromkeys(
            problem for each in seen for problem in find(*each)))

    def _get_replaced(self, evidence, holding):
        """Return the listeners of a pair's amphorae that were replaced before.

        Only now, with the VIP, may it turn out that their image is bad.
        """
        target = self._work.replacement.target_image_id
        return {
            amphora_id: self._work.agent_of(amphora).get_listeners()
            for amphora_id, amphora in evidence.amphorae.items()
            if holding.get(amphora_id) and target == amphora.image_id and
            amphora_id not in (self._work.old_id, self._work.new_id)}

    def serves(self, amphora):
        """Tell whether an amphora alone has its listeners and the VIP."""
        if amphora is None:
            return False
        load_balancer = self._work.get_load_balancer()
        agent = self._work.agent_of(amphora)
        try:
            return ((agent.holds(load_balancer.vip.ip_address) or
                     listeners.may_lack_holder(load_balancer.topology,
                                               load_balancer.listeners)) and
                    set(agent.get_listeners()) >= set(
                        listeners.find_served(load_balancer.enabled, {
                            listener.id: listener.enabled for listener
                            in load_balancer.listeners})))
        except work_.AGENT_ERRORS:
            return False

# SPDX-License-Identifier: Apache-2.0

"""Waits until a new amphora is shown to serve."""

import datetime
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import listeners
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import haproxies
from octavia_hmsync.image.replace import proof
from octavia_hmsync.image.replace import testimony
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)

# Heartbeats during which members are looked at before anything is done.
_LOOKS = 2
# Seconds between two looks at everything: each asks all agents.
_LOOK_INTERVAL = 1
# Seconds; haproxy that dies again and again does so a few times in them, also
# where heartbeats come each second.
_SHORTEST = 5
# Seconds; what one health manager records may become visible after what
# another one has recorded later.
_LAG = datetime.timedelta(seconds=5)


class Prover:
    """Looks at a load balancer until all is shown that is to be.

    .is_alone tells, after a proof, whether all amphorae but the new one were
    dead.

    :param work: a Work.
    :param get_holders: called with the ids of the old and the new amphora and
                        whether the switch is done, for the ids of those of
                        whom one may have the VIP.
    """

    def __init__(self, work, get_holders):
        self._work = work
        self._get_holders = get_holders
        self._vip = None
        self._interval = work.conf.health_manager.heartbeat_interval
        self._members: dict[str, str] = {}
        self._testimony = testimony.Testimony()
        # From when on what was said is of interest, by the database's clock.
        self._since: datetime.datetime | None = None
        self._are_members_all = False
        self._bad: set[str] = set()
        self._known_untold: set[str] = set()
        self._haproxies = haproxies.Haproxies(work)
        self.is_alone = False

    def remember(self):
        """Take note of how it is before anything is done.

        Until each amphora has told of the members in a heartbeat; where they
        are not told of, as long as two take to come: each writes what its
        amphora has of the members into Octavia's rows. What amphorae tell
        later, while the new one is built, counts as well.
        """
        evidence = self._work.read()
        self._members = evidence.members
        self._since = evidence.now
        self._testimony = testimony.Testimony()
        self._haproxies = haproxies.Haproxies(self._work)
        if not evidence.down_after:
            # Nobody looks at members.
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
        """Wait until everything is shown, for so long without a break.

        Where all others died meanwhile nothing is lost by a new amphora that
        serves, and time is: it has to serve once.

        :param is_switched: whether the new amphora is to have the VIP.
        :raises NotProven: with what is not, after proof_timeout.
        :raises Lost, Stopped: as Work.check().
        """
        evidence = self._work.read()
        self._testimony.is_closed = is_switched and self._since is not None
        heartbeats = (proof.HEARTBEATS_SWITCHED if is_switched
                      else proof.HEARTBEATS)
        problems = self._wait(
            [self._expect(evidence.now, is_switched)], heartbeats,
            # What it has of the members was seen before.
            0 if is_switched else evidence.down_after, evidence.now)
        if problems:
            raise exceptions.NotProven(
                f'The new amphora is not shown to serve: '
                f'{"; ".join(problems)}.')

    def _wait(self, expected, heartbeats, down_after, now):
        """Wait until nothing is missing for so long without a break.

        :param expected: what _find_problems() takes, a list of Expectation.
        :param heartbeats: how many of each amphora are to come.
        :param down_after: seconds that monitors take; a tenant sets them, so
                           that no more than proof_timeout is waited for them.
        :param now: by the database's clock.
        :returns: what was missing last, in words; empty if nothing is.
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
        # What was wrong last: it may come and go.
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

        Where no health manager tells what an amphora says, what Octavia has
        of it has to do.
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
        """Look for a second at what changes quickly: haproxy, and heartbeats.

        :returns: what is wrong, but for members, and what is wrong with them,
                  in words.
        """
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
            # An agent has other things to do at least half of the time.
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
        """Take what amphorae have said; tell what is wrong with it."""
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

        Of none it was seen how they were: then none is.
        """
        if not self._members:
            return []
        return proof.find_worse(self._members, evidence.members)

    def were_members_at_fault(self):
        """Tell, when the new amphora is gone, whether it was not the cause.

        Members that are worse without it, too, have failed by themselves, or
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

    def _expect(self, since, is_switched):
        replacement = self._work.replacement
        return proof.Expectation(
            self._work.new_id, replacement.target_image_id, since,
            proof.HEARTBEATS_MISSED * self._interval,
            self._get_holders(self._work.old_id, self._work.new_id,
                              is_switched),
            self._are_listeners_told)

    @property
    def _are_listeners_told(self):
        """Whether it is recorded which listeners heartbeats tell of."""
        return 'stats_db' in (
            self._work.conf.controller_worker.statistics_drivers)

    def _find_problems(self, expected):
        one, = expected
        evidence = self._work.read()
        new = evidence.amphorae.get(self._work.new_id)
        holding = self._work.find_holders(evidence.amphorae.values(),
                                          self._vip)
        found = {}
        try:
            if new is not None:
                found = self._work.agent_of(new).get_listeners()
            replaced = self._get_replaced(evidence, holding)
        except work_.AGENT_ERRORS as e:
            return [str(e).rstrip('.')]
        seen = proof.Seen(evidence, found, holding, replaced)
        self.is_alone = proof.is_alone(one, seen)
        return (proof.find_problems_alone if self.is_alone
                else proof.find_problems)(one, seen)

    def _get_replaced(self, evidence, holding):
        """Return the listeners of those of a pair that were replaced before.

        Only now, with the VIP, may it turn out that their image is bad.
        """
        target = self._work.replacement.target_image_id
        return {
            amphora_id: self._work.agent_of(amphora).get_listeners()
            for amphora_id, amphora in evidence.amphorae.items()
            if holding.get(amphora_id) and target == amphora.image_id and
            amphora_id not in (self._work.old_id, self._work.new_id)}

    def serves(self, amphora):
        """Tell whether an amphora has its listeners and the VIP, by itself.

        :param amphora: an Amphora of the evidence, or None.
        """
        if amphora is None:
            return False
        load_balancer = self._work.get_load_balancer()
        agent = self._work.agent_of(amphora)
        try:
            return (agent.holds(load_balancer.vip.ip_address) and
                    set(agent.get_listeners()) >= set(
                        listeners.find_served(load_balancer.enabled, {
                            listener.id: listener.enabled for listener
                            in load_balancer.listeners})))
        except work_.AGENT_ERRORS:
            return False

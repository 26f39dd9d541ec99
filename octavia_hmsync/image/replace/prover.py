#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.
"""Waits until a new amphora is shown to serve."""

import time

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import proof
from octavia_hmsync.image.replace import work as work_

# Heartbeats during which members are looked at before anything is done.
_LOOKS = 2
# Seconds between two looks at everything: each asks all agents.
_LOOK_INTERVAL = 1


class Prover:
    """Looks at a load balancer until all is shown that is to be.

    .listeners are the statuses of its listeners before anything was done.

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
        self._are_members_all = False
        self.listeners: dict[str, tuple[str, str]] = {}

    def remember(self):
        """Take note of how it is before anything is done.

        Each heartbeat writes what its amphora has of the members.
        """
        evidence = self._work.read()
        self.listeners = {
            listener_id: (provisioning, operating) for
            listener_id, (_enabled, provisioning, operating)
            in evidence.listeners.items()}
        self._members = evidence.members
        deadline = time.monotonic() + min(_LOOKS * self._interval, 5)
        while evidence.members and time.monotonic() < deadline:
            self._work.pause()
            self._members = proof.merge_worst(self._members,
                                              self._work.read().members)

    def prove(self, is_switched):
        """Wait until everything is shown, for so long without a break.

        :param is_switched: whether the new amphora is to have the VIP.
        :raises NotProven: with what is not, after proof_timeout.
        :raises Lost, Stopped: as Work.check().
        """
        evidence = self._work.read()
        steady = proof.HEARTBEATS * self._interval
        timeout = self._work.options.proof_timeout + steady
        if is_switched:
            # What it has of the members was seen before.
            steady = self._interval
        else:
            steady += evidence.down_after
            timeout += evidence.down_after
        problems = self._wait(self._expect(evidence.now, is_switched),
                              steady, timeout)
        if problems:
            raise exceptions.NotProven(
                f'The new amphora is not shown to serve: '
                f'{"; ".join(problems)}.')

    def _wait(self, expected, steady, timeout):
        """Wait until nothing is missing for so long without a break.

        :param expected: what _find_problems() takes.
        :param steady: seconds.
        :param timeout: seconds.
        :returns: what was missing last, in words; empty if nothing is.
        """
        self._vip = self._work.get_load_balancer().vip.ip_address
        deadline = time.monotonic() + timeout
        since = None
        # What was wrong last: it may come and go.
        problems: list[str] = []
        while time.monotonic() < deadline:
            found = self._find_problems(expected)
            worse = self._watch_members()
            if found or worse:
                since = None
                problems = found + worse
                self._are_members_all = not found
            elif since is None:
                since = time.monotonic()
            elif time.monotonic() - since >= steady:
                return []
        return problems or ['not for long enough']

    def _watch_members(self):
        """Look at the members for a second; tell what is wrong with them.

        Each heartbeat writes what its amphora has of them, so that what the
        new one has is there until the old one's next one.
        """
        worse = set()
        until = time.monotonic() + _LOOK_INTERVAL
        while time.monotonic() < until:
            worse.update(self._find_worse())
            self._work.pause()
        return [f'members that were better before: '
                f'{", ".join(sorted(worse))}'] if worse else []

    def _find_worse(self):
        """Return members that are worse; of none it was seen how they were."""
        if not self._members:
            return []
        return proof.find_worse(self._members, self._work.read().members)

    def were_members_at_fault(self):
        """Tell, when the new amphora is gone, whether it was not the cause.

        Members that are worse without it, too, have failed by themselves.
        """
        if not self._are_members_all:
            return False
        until = time.monotonic() + proof.HEARTBEATS * self._interval
        while time.monotonic() < until:
            self._work.pause()
        return bool(self._find_worse())

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
        evidence = self._work.read()
        new = evidence.amphorae.get(self._work.new_id)
        holding = self._work.find_holders(evidence.amphorae.values(),
                                          self._vip)
        listeners = {}
        try:
            if new is not None:
                listeners = self._work.agent_of(new).get_listeners()
            replaced = self._get_replaced(evidence, holding)
        except work_.AGENT_ERRORS as e:
            return [str(e).rstrip('.')]
        return proof.find_problems(expected, proof.Seen(
            evidence, listeners, holding, replaced))

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
                    set(agent.get_listeners()) >= {
                        listener.id for listener in load_balancer.listeners
                        if listener.enabled})
        except work_.AGENT_ERRORS:
            return False

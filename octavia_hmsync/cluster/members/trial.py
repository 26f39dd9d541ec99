# SPDX-License-Identifier: Apache-2.0

"""Tries a change with one member before the others are told.

If two members do not take it or do not serve with it, the change is at fault:
both get their old configuration back, and the others never see the new one.
If a second member takes it, the first one is at fault.
"""

import contextlib
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent
from octavia_hmsync.amphora import listeners as listener_rules
from octavia_hmsync.amphora import telling
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds for a question that an agent answers from what it has.
_ASK_TIMEOUT = 5
# Seconds between two looks at what haproxy serves.
_INTERVAL = 0.2
# Seconds for which a haproxy that has taken a change must go on; or as many
# as it took to take it, as it reads its configuration again.
_WATCH = 2
# Members that must reject a change before it counts as wrong.
_ENOUGH = 2
# Heartbeats after a change of which the last one must tell of its listeners.
# The first may be older than the change, and Octavia records what they tell
# apart from that they came.
_HEARTBEATS = 4
# Heartbeat intervals without a heartbeat after which a member counts as
# unheard.
_PATIENCE = 2
_AGENT_ERRORS = (exceptions.AgentUnreachable, exceptions.AgentRefused)


class Refused(exceptions.ClusterNotUpdated):
    """A member did not take a change, or does not serve with it.

    :param left: {id of a member: why its old configuration is not back}, of
                 the members that may have a part of the change.
    """

    def __init__(self, text, left):
        super().__init__(text)
        self.left = left


class Trial:
    """Finds a member that takes a change.

    An agent lists the listeners of its configuration, and a haproxy that
    cannot begin with it, as where a port is taken, goes on with what it had.
    Only heartbeats tell of that, so new listeners are waited for in these.

    :param client: an agent_client.RestAgentClient.
    :param hear: takes the id of an amphora; returns its member_facts.Heard,
                 or None if nothing can be told.
    :param interval: seconds between two heartbeats.
    :param expected: ids of the listeners that haproxy must serve afterwards.
    :param of_lvs: ids of the listeners that LVS serves, before or afterwards.
    :param seconds: for each member, see telling.tell().
    """

    def __init__(self, client, hear, interval, load_balancer_id, expected,
                 of_lvs, seconds):
        self._client = client
        self._hear = hear
        self._interval = interval
        self._load_balancer_id = load_balancer_id
        self._expected = sorted(expected)
        self._of_lvs = sorted(of_lvs)
        self._seconds = seconds
        # {id of a member: why it did not take the change}.
        self.failures: dict[str, str] = {}

    def run(self, targets):
        """Make one member take the change, and serve with it.

        A member that does not answer is skipped.

        :param targets: telling.Targets, the healthiest first.
        :returns: the ids of the members that were told; empty if none
                  answers.
        :raises Refused: if two do not take it, or the only one.
        """
        told: list[str] = []
        left: dict[str, str] = {}
        for target in targets:
            subject = agent.Agent(self._client, target.amphora_id,
                                  target.lb_network_ip,
                                  min(_ASK_TIMEOUT, self._seconds))
            try:
                before = self._read(subject)
            except _AGENT_ERRORS as e:
                LOG.info('Load balancer %s: a change is not tried with '
                         'amphora %s: %s', self._load_balancer_id,
                         target.amphora_id, e)
                continue
            told.append(target.member_id)
            reason = self._tell(target, subject)
            if reason is None:
                return told
            self.failures[target.member_id] = reason
            problem = self._put_back(target, subject, before)
            if problem:
                left[target.member_id] = problem
            if len(told) == _ENOUGH:
                break
        if told:
            raise Refused('; '.join(
                [*self.failures.values(),
                 'the other members have what they had',
                 *(f'its old configuration could not be restored: {problem}'
                   for problem in left.values())]), left)
        return told

    def _read(self, subject):
        """Return {id of a load balancer or listener: its text or None}."""
        found = {listener_id: subject.get_lvs(listener_id)
                 for listener_id in self._of_lvs}
        found[self._load_balancer_id] = subject.get_haproxy(
            self._load_balancer_id)
        return found

    def _tell(self, target, subject):
        """Tell a member; return why it does not serve, or None."""
        before = self._hear(target.amphora_id)
        began = time.monotonic()
        failures = telling.tell(self._client, [target], self._seconds)
        if failures:
            return failures[target.member_id]
        took = time.monotonic() - began
        reason = (self._find_unlisted(target, subject) or
                  self._find_ended(target, subject, max(_WATCH, took)))
        if reason is None and before is not None:
            reason = self._find_unheard(target, before)
        return reason

    def _find_unlisted(self, target, subject):
        """Wait until its agent lists all listeners, as _tell()."""
        deadline = time.monotonic() + self._seconds
        while True:
            try:
                problems = list(listener_rules.find_missing(
                    target.amphora_id, self._expected,
                    subject.get_listeners()))
            except _AGENT_ERRORS as e:
                problems = [str(e)]
            if not problems:
                return None
            if time.monotonic() > deadline:
                return f'amphora {target.amphora_id}: {"; ".join(problems)}'
            time.sleep(_INTERVAL)

    def _find_ended(self, target, subject, seconds):
        """Watch for so many seconds whether its haproxy ends, as _tell().

        systemd starts a haproxy that ended, and it ends again.
        """
        deadline = time.monotonic() + seconds
        while self._expected and time.monotonic() < deadline:
            # An agent that does not answer now has answered before.
            with contextlib.suppress(*_AGENT_ERRORS):
                if not subject.count_haproxies():
                    return (f'amphora {target.amphora_id}: its haproxy has '
                            f'ended with the configuration. See the log of '
                            f'haproxy in the amphora')
            time.sleep(_INTERVAL)
        return None

    def _find_unheard(self, target, before):
        """Wait until its heartbeats report new listeners, as _tell()."""
        new = set(self._expected) - before.listeners
        last, count = before.last_update, 0
        deadline = time.monotonic() + _PATIENCE * self._interval
        while new and last is not None:
            time.sleep(_INTERVAL)
            heard = self._hear(target.amphora_id)
            if heard is None or time.monotonic() > deadline:
                LOG.info('Load balancer %s: no heartbeat tells whether '
                         'amphora %s serves new listeners',
                         self._load_balancer_id, target.amphora_id)
                return None
            new -= heard.listeners
            if new and heard.last_update != last:
                last, count = heard.last_update, count + 1
                deadline = time.monotonic() + _PATIENCE * self._interval
            if new and count == _HEARTBEATS:
                return (f'amphora {target.amphora_id}: its haproxy has the '
                        f'configuration and does not serve the listener '
                        f'{", ".join(sorted(new))}. See the log of haproxy '
                        f'in the amphora')
        return None

    def _put_back(self, target, subject, before):
        """Restore a member; return why that failed, or None."""
        try:
            now = self._read(subject)
        except _AGENT_ERRORS as e:
            return str(e)
        # What its agent has rejected did not change.
        requests = [
            request for served, text in before.items() if now[served] != text
            for request in self._plan_put_back(target, served, text)]
        if not requests:
            return None
        return telling.tell(self._client, [telling.Target(
            target.member_id, target.amphora_id, target.lb_network_ip,
            lambda _facts: requests, needs_facts=False)],
            self._seconds).get(target.member_id)

    def _plan_put_back(self, target, served, text):
        if text is None:
            return [compat_driver.Request('DELETE', f'listeners/{served}')]
        kind, name = (('loadbalancer', 'haproxy')
                      if served == self._load_balancer_id else
                      ('listeners', 'udp_listener'))
        return [compat_driver.Request(
            'PUT', f'{kind}/{target.amphora_id}/{served}/{name}', text),
            compat_driver.Request('PUT', f'loadbalancer/{served}/reload')]

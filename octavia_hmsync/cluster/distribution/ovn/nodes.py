# SPDX-License-Identifier: Apache-2.0

"""Finds members on dead nodes, because OVN does not show them.

The node of a member probes its front end, so its last result stays in OVN
when the node dies. Neutron knows whether the ovn-controller of a node still
answers OVN; it is asked only about silent members.
"""

import time

from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

# Seconds between two rounds.
_INTERVAL = 10
# Members per round: each takes two requests.
_AT_ONCE = 8


class Nodes:
    """Checks the nodes of members.

    :param clock: returns seconds.
    """

    def __init__(self, engine, balancers, clock=time.monotonic):
        self._engine = engine
        self._balancers = balancers
        self._clock = clock
        self._checked: float | None = None
        # The last member that was asked about.
        self._after = ''

    def run_once(self):
        """Record the members on dead nodes in Balancers.on_dead_nodes."""
        now = self._clock()
        if self._checked is not None and now - self._checked < _INTERVAL:
            return
        self._checked = now
        silent = {member_id for member_id, result
                  in probe_repo.get_of_observer(
                      self._engine, probe_repo.HEARTBEATS).items()
                  if result.state == probe_repo.DOWN}
        ports = {member_id: port_id
                 for applied, _ in self._balancers.get_applied().values()
                 for port_id, member_id in applied.members.items()
                 if member_id in silent}
        # Members that are not asked about now keep their result.
        found = {member_id: host for member_id, host
                 in self._balancers.on_dead_nodes.items()
                 if member_id in ports}
        problem = None
        for member_id in sorted(ports, key=lambda each: (
                each <= self._after, each))[:_AT_ONCE]:
            self._after = member_id
            try:
                host = self._balancers.ports.find_dead_node(ports[member_id])
            except (exceptions.CloudUnavailable,
                    exceptions.CloudRefused) as e:
                problem = f'Nodes of silent members were not checked: {e}'
                found = {}
                break
            found.pop(member_id, None)
            if host is not None:
                found[member_id] = host
        periodic.note_problem(self, problem)
        self._balancers.on_dead_nodes = found

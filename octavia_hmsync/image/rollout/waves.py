# SPDX-License-Identifier: Apache-2.0

"""What a rollout would do, wave by wave, if nothing failed.

Pure rules. A real rollout has no waves: a finished and watched load balancer
makes room for the next. The waves only show which load balancers are canaries,
and the order of the others.
"""

import collections
from collections.abc import Sequence
import heapq

from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import limits


def get_waves(settings: rollout_repo.Settings,
              candidates: Sequence[limits.Candidate]
              ) -> list[tuple[bool, list[limits.Candidate]]]:
    """Return (are canaries, Candidates that begin together), in order."""
    ordered = sorted(candidates, key=lambda c: c.load_balancer_id)
    seen: collections.Counter[limits.Group] = collections.Counter()
    canaries: list[limits.Candidate] = []
    others: list[limits.Candidate] = []
    for candidate in ordered:
        seen[candidate.group] += 1
        is_canary = seen[candidate.group] <= settings.canaries
        (canaries if is_canary else others).append(candidate)
    return [(is_canary, wave)
            for is_canary, part in ((True, canaries), (False, others))
            for wave in _split(settings, part)]


def _split(settings: rollout_repo.Settings,
           candidates: list[limits.Candidate]) -> list[list[limits.Candidate]]:
    """Split into waves of candidates that may begin together."""
    per_zone = settings.parallel_per_az or len(candidates)
    queues: dict[str | None, collections.deque[tuple[int, limits.Candidate]]]
    queues = collections.defaultdict(collections.deque)
    for item in enumerate(candidates):
        queues[item[1].availability_zone].append(item)
    waves = []
    while queues:
        wave: list[limits.Candidate] = []
        used: collections.Counter[str | None] = collections.Counter()
        # The first candidate of each zone, by its place among all.
        heads = [(queue[0][0], zone)
                 for zone, queue in queues.items()]
        heapq.heapify(heads)
        while heads and len(wave) < settings.parallel:
            zone = heapq.heappop(heads)[-1]
            queue = queues[zone]
            wave.append(queue.popleft()[1])
            used[zone] += 1
            if not queue:
                del queues[zone]
            elif used[zone] < per_zone:
                heapq.heappush(heads, (queue[0][0], zone))
        waves.append(wave)
    return waves

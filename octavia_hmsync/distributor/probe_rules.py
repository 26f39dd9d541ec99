# SPDX-License-Identifier: Apache-2.0

"""What follows from probes of the front end of a member. Pure.

One miss means nothing: a frame may be lost, or haproxy may be restarting. A
member that was DOWN must answer more than once, too.
"""

import dataclasses

UP = 'UP'
DOWN = 'DOWN'

# Answers in a row that a DOWN member needs.
HITS = 2
# Additional misses in a row while Open vSwitch loses packets: a dead member
# misses all probes, a live one only a part.
EXCUSED = 5

SILENT = 'its front end does not answer'
REFUSED = 'its front end refuses connections'
# It lives: haproxy is at its connection limit, for example.
FULL = 'its front end takes no more connections'

# Its system accepts connections for haproxy, which does not answer.
HANGS = 'its haproxy hangs'


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The judgement of a member.

    :ivar state: UP, DOWN, or None while unknown.
    :ivar error: why it is DOWN, or FULL, or None.
    :ivar misses: how often in a row it did not answer.
    :ivar hits: how often in a row it has answered since it is DOWN.
    :ivar turn: a growing counter that selects the port to try: each miss
                changes the port, as a port may just be taken away.
    """

    state: str | None = None
    error: str | None = None
    misses: int = 0
    hits: int = 0
    turn: int = 0

    @property
    def is_in_doubt(self) -> bool:
        """Tell whether to probe again immediately."""
        if self.state == DOWN:
            return self.hits > 0
        return self.misses > 0


def judge(before: Verdict, error: str | None, misses: int) -> Verdict:
    """Return the judgement of a member after one more probe.

    :param error: what was wrong; None if it answered. A FULL member counts
                  as UP: without it the others would have even more to do.
    :param misses: after how many misses in a row it is DOWN.
    """
    if error in (None, FULL):
        if before.state == DOWN and before.hits + 1 < HITS:
            return dataclasses.replace(before, misses=0,
                                       hits=before.hits + 1)
        return Verdict(UP, error, turn=before.turn)
    count = before.misses + 1
    if before.state == DOWN or count >= misses:
        return Verdict(DOWN, error, count, 0, before.turn + 1)
    return Verdict(before.state, before.error, count, 0, before.turn + 1)

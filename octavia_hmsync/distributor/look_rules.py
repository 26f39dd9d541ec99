# SPDX-License-Identifier: Apache-2.0

"""What follows from looks at the front end of a member. Pure.

One miss is no news: a frame may be lost, or haproxy be starting anew. One who
was DOWN has to answer more than once, too.
"""

import dataclasses

UP = 'UP'
DOWN = 'DOWN'

# How often in a row one that is DOWN has to answer.
HITS = 2
# How often more in a row one has to miss while Open vSwitch loses packets: who
# is dead misses all, who is well a part.
EXCUSED = 5

SILENT = 'its front end does not answer'
REFUSED = 'its front end refuses connections'
# It lives: as haproxy at its connection limit.
FULL = 'its front end takes no more connections'

# It takes connections, as its system does so for it, and answers none.
HANGS = 'its haproxy hangs'


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What is thought of a member.

    :ivar state: UP, DOWN, or None while nobody knows.
    :ivar error: why it is DOWN, or FULL, or None.
    :ivar misses: how often in a row it did not answer.
    :ivar hits: how often in a row it did since it is DOWN.
    :ivar turn: which of the ports is tried next, counted on without end: each
                miss goes to the next one, as a port may just be taken away.
    """

    state: str | None = None
    error: str | None = None
    misses: int = 0
    hits: int = 0
    turn: int = 0

    @property
    def is_in_doubt(self) -> bool:
        """Tell whether to look again at once."""
        if self.state == DOWN:
            return self.hits > 0
        return self.misses > 0


def judge(before: Verdict, error: str | None, misses: int) -> Verdict:
    """Return what is thought of a member after one more look.

    :param before: what was before.
    :param error: what was wrong with it; None if it answered. One that is
                  FULL is there, and has as much to do as it can: without it
                  the others would have more.
    :param misses: after how many in a row it is DOWN.
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

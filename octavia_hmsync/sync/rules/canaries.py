# SPDX-License-Identifier: Apache-2.0

"""Which amphorae try a list before the others. Pure rules.

A hostile amphora must not be able to make itself a canary. So neither when it
was heard nor whether it was seen to change its list counts.
"""

from collections import abc
import dataclasses
import random
import typing

from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones as zn


@dataclasses.dataclass(frozen=True)
class Eligible:
    """An amphora that may be chosen.

    :param addresses: the list that it would get.
    :param harm: what its failover would do; of two of one load balancer the
                 amphora with less is chosen first.
    :param is_mute: whether it is known to keep an old list: with an image
                    that never follows a list it proves nothing.
    :param fell_silent: whether it did so before, with a list on trial.
    :param fresh: which addresses are new in its zone; None for all that are
                  new anywhere.
    """

    amphora_id: str
    load_balancer: str
    addresses: tuple[str, ...]
    harm: int = 0
    is_mute: bool = False
    fell_silent: bool = False
    zone: zn.Names = zn.NOWHERE
    fresh: frozenset[str] | None = None

    @property
    def tries(self) -> set[tuple[zn.Names, str]]:
        """The (zone, address) pairs that it can test."""
        return {(self.zone, a) for a in self.addresses
                if self.fresh is None or a in self.fresh}


def choose(eligible: abc.Iterable[Eligible], fresh: abc.Iterable[str],
           size: int, asked: abc.Container[str] = (),
           shuffle: abc.Callable[[list[typing.Any]], None] =
           random.SystemRandom().shuffle) -> list[str]:
    """Choose which amphorae to admit next, by chance.

    First one amphora of each load balancer, then the second of each. Load
    balancers with an amphora that fell silent on trial come last. More than
    size are chosen if needed to try each new address.

    :param asked: load balancers with an amphora that was admitted before.
    """
    ordered = _in_order(list(eligible), asked, shuffle)
    chosen = ordered[:size]
    fresh = set(fresh)
    wanted = {(zone, a) for zone in {e.zone for e in ordered} for a in fresh}
    missing = wanted.difference(*(e.tries for e in chosen))
    for one in ordered[size:]:
        if missing & one.tries:
            chosen.append(one)
            missing -= one.tries
    return [one.amphora_id for one in chosen]


def _in_order(eligible: list[Eligible], asked: abc.Container[str],
              shuffle: abc.Callable[[list[typing.Any]], None]
              ) -> list[Eligible]:
    shuffle(eligible)
    silent = {e.load_balancer for e in eligible if e.fell_silent}
    eligible.sort(key=lambda e: (e.fell_silent, e.is_mute, e.harm))
    turns: dict[str, int] = {}
    keyed = []
    for one in eligible:
        turn = turns.setdefault(one.load_balancer,
                                one.load_balancer in asked)
        turns[one.load_balancer] = turn + 1
        keyed.append(((one.load_balancer in silent, one.is_mute, turn), one))
    # Shuffle again, so that harm decides only within a load balancer.
    shuffle(keyed)
    keyed.sort(key=lambda pair: pair[0])
    return [one for _key, one in keyed]


def how_many_more(load_balancers: int, heard: int) -> int:
    """Return how many load balancers to ask when one of them fell silent.

    So many that a single silent one is within what is tolerated.

    :returns: at least 1.
    """
    if not heard:
        # The list may be bad: risk only a few.
        return 2
    return max(1, trial.TOLERATED - load_balancers)

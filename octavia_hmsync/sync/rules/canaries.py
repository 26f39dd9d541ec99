# SPDX-License-Identifier: Apache-2.0

"""Which amphorae try a list before the others. Pure rules.

Nothing that an amphora can bring about by itself makes it one of the first:
not when it was heard, nor whether it was seen to change its list.
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

    :param amphora_id: its id.
    :param load_balancer: whose amphora it is; its own id if it has none.
    :param addresses: the list that it would get.
    :param harm: what its failover would do; of two of one load balancer the
                 one with less is chosen first.
    :param is_mute: whether it is known to go on with an old list: an image
                    that never follows a list cannot tell a bad one.
    :param fell_silent: whether it once did while a list was on trial.
    :param zone: what its zone is called: there an address may be new that is
                 not elsewhere; see sync.rules.zones.
    :param fresh: those of the addresses that are new there, None for all
                  that are new anywhere.
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
        """What it can tell of: in which zone, and of which address."""
        return {(self.zone, a) for a in self.addresses
                if self.fresh is None or a in self.fresh}


def choose(eligible: abc.Iterable[Eligible], fresh: abc.Iterable[str],
           size: int, asked: abc.Container[str] = (),
           shuffle: abc.Callable[[list[typing.Any]], None] =
           random.SystemRandom().shuffle) -> list[str]:
    """Choose which amphorae to admit next, by chance.

    One of each load balancer as long as there are others; those of a load
    balancer of which one fell silent on trial come last of all. As many more
    as it takes for each new address to be tried.

    :param eligible: a list of Eligible.
    :param fresh: the new addresses.
    :param size: how many.
    :param asked: load balancers of which one was admitted before.
    :param shuffle: called with a list, which it brings into a random order.
    :returns: a list of amphora ids.
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
    # By chance again among those that are alike but for the harm.
    shuffle(keyed)
    keyed.sort(key=lambda pair: pair[0])
    return [one for _key, one in keyed]


def how_many_more(load_balancers: int, heard: int) -> int:
    """Return how many load balancers to ask when one of them fell silent.

    Few where nobody was heard, as the list may be bad; then so many that one
    which stays alone is within what is tolerated.

    :param load_balancers: those that were asked so far.
    :param heard: those of them that were heard.
    :returns: at least 1.
    """
    if not heard:
        return 2
    return max(1, trial.TOLERATED - load_balancers)

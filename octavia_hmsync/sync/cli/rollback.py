# SPDX-License-Identifier: Apache-2.0

"""Takes back what the newest list added, on an operator's order."""

import dataclasses

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones as zn


@dataclasses.dataclass(frozen=True)
class RollBack:
    """The plan of a roll back.

    :param newest: the Generation that is withdrawn.
    :param target: the earlier Generation.
    :param slots: {address: slot} of the list that takes its place.
    :param suspects: the addresses that are left out, a set.
    """

    newest: generation_repo.Generation
    target: generation_repo.Generation
    slots: dict
    suspects: set


def prepare(conf, engine, number=None):
    """Plan the roll back of the newest generation.

    :param number: the generation to go back to, by default the last one that
                   was not rolled back itself.
    :raises NotPossible: if there is nothing to take back, or if no health
                         manager would hear the amphorae then.
    """
    history = generation_repo.get_history(engine)
    if len(history) < 2:
        raise exceptions.NotPossible(
            'There is no earlier generation to roll back to: see '
            '"octavia-hmsync generation list".')
    newest = history[-1]
    target = _find_target(history, number)
    suspects = set(newest.addresses) - set(target.addresses)
    if newest.status == trial.ROLLED_BACK or not suspects:
        raise exceptions.NotPossible(
            f'Generation {newest.number} has no address that generation '
            f'{target.number} does not have: there is nothing to take back. '
            f'Addresses that only the latter has are gone, or draining.')
    pinned = keeper_repo.get_pinned(
        engine, conf.hmsync.offline_after + conf.hmsync.removal_delay)
    if suspects & set(pinned):
        raise exceptions.NotPossible(
            f'{addr.join_list(addr.canonical(suspects & set(pinned)))} are '
            f'listed in octavia.conf of a controller, and so in every list: '
            f'correct [health_manager] controller_ip_port_list there.')
    addresses = addr.canonical(set(newest.addresses) - suspects)
    heard = {m.address for m in hm_repo.get_all(engine) if mem.is_listening(
        m, conf.hmsync.offline_after)} | set(pinned)
    zones = zn.of_list(newest.zones, addresses)
    if not all(heard.intersection(zn.reachable(addresses, zones, names))
               for names in zn.views(newest.zones)):
        raise exceptions.NotPossible(
            f'No health manager of generation {target.number} is up: without '
            f'{addr.join_list(addr.canonical(suspects))} the amphorae '
            f'would not be heard. Start one first.')
    return RollBack(newest, target,
                    subset.assign_slots(newest.slots, addresses), suspects)


def _find_target(history, number):
    earlier = [g for g in history[:-1] if number in (None, g.number)]
    if number is None:
        earlier = [g for g in earlier if g.status != trial.ROLLED_BACK]
    if not earlier:
        raise exceptions.NotPossible(
            f'There is no generation {number} before the newest one, '
            f'{history[-1].number}: see "octavia-hmsync generation list".'
            if number is not None else
            'Every earlier generation was rolled back: name one, see '
            '"octavia-hmsync generation list".')
    return earlier[-1]


def carry_out(conf, engine, change):
    """Roll back; NotPossible if another list was published meanwhile."""
    # Imported late, as where other commands need more than the database.
    from octavia_hmsync.notifications import outbox

    suspects = addr.canonical(change.suspects)
    why = f'by an operator, to {change.target.number}'
    if not generation_repo.roll_back(
            engine, change.newest.number, suspects, change.slots,
            f'generation {change.newest.number} is rolled back: {why}',
            conf.host, (*trial.TRIAL_STATUSES, trial.OPEN),
            change.newest.key_digest,
            zn.of_list(change.newest.zones, change.slots)):
        raise exceptions.NotPossible(
            f'Generation {change.newest.number} is no longer the newest: '
            f'look at "octavia-hmsync generation list" and run it again.')
    outbox.send_and_wait(conf, payloads.for_roll_back(
        change.newest.number, suspects, why, change.slots, conf.host))

# SPDX-License-Identifier: Apache-2.0

"""The phases of a replacement, and how to go on after its owner died.

Pure rules. The row has a phase before the phase begins. So a dead owner may
have completed its phase, a part of it, or nothing.
"""

import enum


class Phase(enum.StrEnum):
    """The phases, in this order."""

    LOCK = 'LOCK'
    """We have not locked the load balancer yet. The transaction that locks it
    also writes the next phase, which makes the lock ours.
    """

    BUILD = 'BUILD'
    """It is locked. The new amphora's id is in the row before it is built."""

    PROVE = 'PROVE'
    """The new amphora is proven to serve, beside the old one."""

    SWITCH = 'SWITCH'
    """The VIP goes to the new amphora."""

    PROVE_SWITCHED = 'PROVE_SWITCHED'
    """The new amphora is proven to serve, with the VIP."""

    DELETE_OLD = 'DELETE_OLD'
    """The old amphora is deleted: there is no way back any more."""

    UNLOCK = 'UNLOCK'
    """The load balancer is unlocked."""

    BACK = 'BACK'
    """The old amphora gets the VIP again, the new one is deleted, and the load
    balancer is unlocked. No phase follows.
    """

    ASK = 'ASK'
    """Mode failover: it is locked, and no octavia-worker was asked yet."""

    FAILOVER = 'FAILOVER'
    """Mode failover: an octavia-worker was asked, or is about to be, to fail
    the old amphora over. The lock now belongs to that worker, which unlocks
    the load balancer; LOCK follows then.
    """

    ORDER = 'ORDER'
    """Of a cluster: an order to replace a member is given, or about to be.
    The manager of the cluster replaces it, with a lock of its own. LOCK
    follows when another amphora is proven to serve in its place.
    """


class Next(enum.StrEnum):
    """What the new owner of a replacement has to do."""

    AGAIN = 'AGAIN'
    """Begin again: nothing was changed."""

    BACK = 'BACK'
    """Go to BACK."""

    PROOF = 'PROOF'
    """Repeat the switch, if it was not done, and prove as in PROVE_SWITCHED:
    go on if that succeeds, otherwise to BACK.
    """

    FORWARD = 'FORWARD'
    """Repeat the phase, and go on."""

    WAIT = 'WAIT'
    """Wait for the worker or manager that has the work: it is not asked twice,
    and what it may work on is not unlocked.
    """


_AFTER_DEATH = {
    Phase.LOCK: Next.AGAIN, Phase.BUILD: Next.BACK, Phase.PROVE: Next.BACK,
    Phase.SWITCH: Next.PROOF, Phase.PROVE_SWITCHED: Next.PROOF,
    Phase.DELETE_OLD: Next.FORWARD, Phase.UNLOCK: Next.FORWARD,
    Phase.BACK: Next.BACK, Phase.ASK: Next.BACK, Phase.FAILOVER: Next.WAIT,
    Phase.ORDER: Next.WAIT}


def after_death(phase: str | None) -> Next:
    """Tell how to go on after the owner died in a phase.

    :param phase: from the row; None if no phase had begun.
    :raises ValueError: if this release does not know the phase.
    """
    return Next.AGAIN if phase is None else _AFTER_DEATH[Phase(phase)]


def is_begun(phase: str | None) -> bool:
    """Tell whether work is to be completed; so in an unknown phase."""
    return phase not in (None, Phase.LOCK)


def may_be_cancelled(phase: str | None) -> bool:
    """Tell whether a phase may be left for BACK, on request.

    A switch is never left half-way, and what is deleted cannot come back.
    """
    return phase in (None, Phase.LOCK, Phase.BUILD, Phase.PROVE,
                     Phase.PROVE_SWITCHED)


def has_lock(phase: str | None) -> bool:
    """Tell whether we have locked the load balancer.

    Otherwise the lock belongs to another process, and stays.

    :param phase: from the row; a phase of a newer release has the lock.
    """
    return is_begun(phase) and phase != Phase.ORDER

# SPDX-License-Identifier: Apache-2.0

"""The phases of a replacement, and what follows one whose owner died.

Pure rules. A phase is in the row before anything of it is done, so that it
may have been done in part, or not at all.
"""

import enum


class Phase(enum.StrEnum):
    """What is done; in this order."""

    LOCK = 'LOCK'
    """The load balancer is not locked by us yet. What locks it writes the
    next phase in the same transaction, or nobody could tell whose lock it is.
    """

    BUILD = 'BUILD'
    """It is locked. The new amphora is built, its id is in the row before."""

    PROVE = 'PROVE'
    """The new amphora is shown to serve, beside the old one."""

    SWITCH = 'SWITCH'
    """The VIP goes to the new amphora."""

    PROVE_SWITCHED = 'PROVE_SWITCHED'
    """The new amphora is shown to serve, with the VIP."""

    DELETE_OLD = 'DELETE_OLD'
    """The old amphora is deleted: there is no way back any more."""

    UNLOCK = 'UNLOCK'
    """The load balancer is given back."""

    BACK = 'BACK'
    """The old amphora has the VIP again, the new one is deleted, and the load
    balancer is given back. No phase follows.
    """

    ASK = 'ASK'
    """Of mode failover: it is locked, and no octavia-worker was asked yet."""

    FAILOVER = 'FAILOVER'
    """Of mode failover: an octavia-worker was asked, or is about to be, to
    fail the old amphora over. The lock is that worker's, who gives the load
    balancer back; LOCK follows then.
    """

    ORDER = 'ORDER'
    """Of a cluster: a member is ordered to be replaced, or about to be, and
    whoever manages the cluster does so, with a lock of its own. LOCK follows
    when another amphora is shown to serve in its place.
    """


class Next(enum.StrEnum):
    """What whoever takes a replacement up has to do."""

    AGAIN = 'AGAIN'
    """Begin anew: nothing was touched."""

    BACK = 'BACK'
    """Go to BACK."""

    PROOF = 'PROOF'
    """Do the switch again, if it was not done, and prove as in
    PROVE_SWITCHED: go on if it holds, and to BACK if not.
    """

    FORWARD = 'FORWARD'
    """Do the phase again, and go on."""

    WAIT = 'WAIT'
    """Wait until whoever does it is done: a worker is not asked a second time,
    and what it may work on is not unlocked.
    """


_AFTER_DEATH = {
    Phase.LOCK: Next.AGAIN, Phase.BUILD: Next.BACK, Phase.PROVE: Next.BACK,
    Phase.SWITCH: Next.PROOF, Phase.PROVE_SWITCHED: Next.PROOF,
    Phase.DELETE_OLD: Next.FORWARD, Phase.UNLOCK: Next.FORWARD,
    Phase.BACK: Next.BACK, Phase.ASK: Next.BACK, Phase.FAILOVER: Next.WAIT,
    Phase.ORDER: Next.WAIT}


def after_death(phase: str | None) -> Next:
    """Tell what follows a phase whose owner died in it.

    :param phase: what the row has; None if no phase had begun.
    :raises ValueError: if this release does not know the phase.
    """
    return Next.AGAIN if phase is None else _AFTER_DEATH[Phase(phase)]


def is_begun(phase: str | None) -> bool:
    """Tell whether something is under way that somebody has to end.

    :param phase: what the row has; one of a newer release is begun.
    """
    return phase not in (None, Phase.LOCK)


def may_be_cancelled(phase: str | None) -> bool:
    """Tell whether a phase may be left for the way back, when asked to.

    Half a switch is not left, and of what is deleted there is no way back.

    :param phase: what the row has.
    """
    return phase in (None, Phase.LOCK, Phase.BUILD, Phase.PROVE,
                     Phase.PROVE_SWITCHED)


def has_lock(phase: str | None) -> bool:
    """Tell whether the load balancer is locked by us.

    What is not is left as it is: the lock is somebody else's.

    :param phase: what the row has; one of a newer release has it.
    """
    return is_begun(phase) and phase != Phase.ORDER

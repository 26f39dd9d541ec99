# SPDX-License-Identifier: Apache-2.0

"""Which list amphorae are to be brought to now, and which of them."""

import dataclasses

from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.rules import trial


@dataclasses.dataclass(frozen=True)
class Target:
    """A generation, and who gets it; see claim.claim_due().

    :param generation: a Generation.
    :param admitted_to: only amphorae that were admitted to this one.
    :param not_admitted_to: only amphorae that were not.
    """

    generation: generation_repo.Generation
    admitted_to: int | None = None
    not_admitted_to: int | None = None


def get_targets(engine):
    """Return what there is to do now, the most urgent first.

    :param engine: an SQLAlchemy engine.
    :returns: as get_goals(), empty while the operator has paused uploads.
    """
    return [] if pause_repo.get(engine) else get_goals(engine)


def get_goals(engine):
    """Return what amphorae are to be brought to, the most urgent first.

    :param engine: an SQLAlchemy engine.
    :returns: a list of Target, empty if no list was ever published.
    """
    newest = generation_repo.get_newest(engine)
    if newest is None:
        return []
    if newest.status == trial.OPEN:
        return [Target(newest)]
    targets = []
    if newest.is_on_trial:
        targets.append(Target(newest, admitted_to=newest.number))
    good = generation_repo.get_last_good(engine)
    if good is not None:
        # The others must not wait for the end of the trial with a list that
        # is older still.
        targets.append(Target(good, not_admitted_to=newest.number))
    return targets


def is_wanted(engine, number):
    """Tell whether amphorae are still to be brought to a generation.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    """
    return (generation_repo.is_wanted(engine, number) and
            not pause_repo.get(engine))


def count_due(engine, condition=None):
    """Return how many amphorae could be claimed now.

    :param engine: an SQLAlchemy engine.
    :param condition: see claim.count_due().
    """
    return sum(claim_repo.count_due(
        engine, target.generation.number, target.admitted_to,
        target.not_admitted_to, condition) for target in get_targets(engine))

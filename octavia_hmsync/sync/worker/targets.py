# SPDX-License-Identifier: Apache-2.0

"""Which lists are to be uploaded now, and to which amphorae."""

import dataclasses

from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.rules import trial


@dataclasses.dataclass(frozen=True)
class Target:
    """A generation, and which amphorae get it, as for claim.claim_due()."""

    generation: generation_repo.Generation
    admitted_to: int | None = None
    not_admitted_to: int | None = None


def get_targets(engine):
    """Return the Targets of get_goals(), none while uploads are paused."""
    return [] if pause_repo.get(engine) else get_goals(engine)


def get_goals(engine):
    """Return Targets, the most urgent first; none if no list is there."""
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
        # During the trial the other amphorae get the last good list, if they
        # have an older one.
        targets.append(Target(good, not_admitted_to=newest.number))
    return targets


def is_wanted(engine, number):
    """Tell whether a generation should still be uploaded."""
    return (generation_repo.is_wanted(engine, number) and
            not pause_repo.get(engine))


def count_due(engine, condition=None):
    """Count what could be claimed now, as claim.count_due()."""
    return sum(claim_repo.count_due(
        engine, target.generation.number, target.admitted_to,
        target.not_admitted_to, condition) for target in get_targets(engine))

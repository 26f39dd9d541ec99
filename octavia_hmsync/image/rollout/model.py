# SPDX-License-Identifier: Apache-2.0

"""The data for decisions in a rollout."""

from collections.abc import Sequence
import dataclasses
import datetime

from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo

Group = tuple[str | None, str | None, str | None, str | None]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A load balancer that is outdated, and not excluded.

    :param load_balancer_id: its id.
    :param topology: its topology.
    :param flavor_id: its flavor, or None.
    :param availability_zone: its zone; None counts as a zone, too.
    :param target_image_id: its new image.
    :param is_pending: whether it waits for something that passes.
    :param blocked_by: other obstacles, empty without any.
    :param operating_status: its operating status now, or None.
    """

    load_balancer_id: str
    topology: str | None = None
    flavor_id: str | None = None
    availability_zone: str | None = None
    target_image_id: str | None = None
    is_pending: bool = False
    blocked_by: tuple[str, ...] = ()
    operating_status: str | None = None

    @property
    def group(self) -> Group:
        return (self.topology, self.flavor_id, self.availability_zone,
                self.target_image_id)


@dataclasses.dataclass(frozen=True)
class Situation:
    """The data of one decision.

    :param settings: of the rollout.
    :param now: by the database's clock, UTC.
    :param candidates: Candidates, each load balancer once.
    :param replacements: all of this rollout; rows of get_standing(), or
                         Replacements.
    :param open_elsewhere: ids of load balancers that have an open replacement
                           outside this rollout.
    :param start_ages: how many seconds ago replacements of any rollout
                       began, of the last hour at least.
    """

    settings: rollout_repo.Settings
    now: datetime.datetime
    candidates: Sequence[Candidate]
    replacements: Sequence[replace_repo.Replacement] = ()
    open_elsewhere: frozenset[str] = frozenset()
    start_ages: Sequence[float] = ()

# SPDX-License-Identifier: Apache-2.0

"""What is told of image upgrades; see the module payloads."""

import dataclasses
import datetime

from octavia_hmsync.sync import payloads


@dataclasses.dataclass(frozen=True)
class ImageRolloutStarted(payloads.Payload):
    """A rollout brings all load balancers to their newest image.

    :param rollout_id: its id.
    :param mode: how amphorae are replaced: replace or failover.
    :param reason: why, in the operator's words; may be empty.
    :param undo_of: the id of the rollout that it takes back, or None.
    """

    EVENT_TYPE = 'octavia_hmsync.image_rollout.started'
    PRIORITY = payloads.INFO
    VERSION = '1.1'

    rollout_id: str
    mode: str
    reason: str
    undo_of: str | None


@dataclasses.dataclass(frozen=True)
class _ImageRollout(payloads.Payload):
    """A rollout is in another state.

    :param rollout_id: its id.
    :param mode: how amphorae are replaced: replace or failover.
    :param reason: why it is in this state; may be empty.
    :param done: how many of its replacements are DONE.
    :param failed: how many are FAILED.
    :param skipped: how many are SKIPPED.
    :param running: how many run, and come to their end whatever the state.
    :param refused: how many are REFUSED.
    """

    rollout_id: str
    mode: str
    reason: str
    done: int
    failed: int
    skipped: int
    running: int
    refused: int


@dataclasses.dataclass(frozen=True)
class ImageRolloutPaused(_ImageRollout):
    """An operator has a rollout begin nothing."""

    EVENT_TYPE = 'octavia_hmsync.image_rollout.paused'
    PRIORITY = payloads.INFO
    VERSION = '1.1'


@dataclasses.dataclass(frozen=True)
class ImageRolloutResumed(_ImageRollout):
    """A rollout that was paused goes on."""

    EVENT_TYPE = 'octavia_hmsync.image_rollout.resumed'
    PRIORITY = payloads.INFO
    VERSION = '1.1'


@dataclasses.dataclass(frozen=True)
class ImageRolloutCancelled(_ImageRollout):
    """An operator has ended a rollout."""

    EVENT_TYPE = 'octavia_hmsync.image_rollout.cancelled'
    PRIORITY = payloads.INFO
    VERSION = '1.1'


@dataclasses.dataclass(frozen=True)
class ImageRolloutHalted(_ImageRollout):
    """A rollout has ended because too many of its replacements failed."""

    EVENT_TYPE = 'octavia_hmsync.image_rollout.halted'
    PRIORITY = payloads.ERROR
    VERSION = '1.1'


@dataclasses.dataclass(frozen=True)
class ImageRolloutDone(_ImageRollout):
    """A rollout has ended: nothing is left that it could do."""

    EVENT_TYPE = 'octavia_hmsync.image_rollout.done'
    PRIORITY = payloads.INFO
    VERSION = '1.1'


@dataclasses.dataclass(frozen=True)
class ImageReplacementStarted(payloads.Payload):
    """Somebody begins to replace the amphorae of a load balancer.

    :param replacement_id: id of this attempt.
    :param rollout_id: of which rollout it is a part, None if an operator
                       asked for it by itself.
    :param load_balancer_id: whose amphorae.
    :param mode: how: replace or failover.
    :param canary: whether it is a canary of its rollout.
    :param target_image_id: the image that they are to have.
    """

    EVENT_TYPE = 'octavia_hmsync.image_replacement.started'
    PRIORITY = payloads.INFO
    VERSION = '1.0'

    replacement_id: str
    rollout_id: str | None
    load_balancer_id: str
    mode: str
    canary: bool
    target_image_id: str | None


@dataclasses.dataclass(frozen=True)
class _ImageReplacementEnded(payloads.Payload):
    """An attempt has ended.

    :param replacement_id: its id.
    :param rollout_id: of which rollout it was a part, or None.
    :param load_balancer_id: whose amphorae.
    :param mode: how: replace or failover.
    :param canary: whether it was a canary of its rollout.
    :param target_image_id: the image that they were to have.
    :param old_amphora_id: the amphora that was to go, the last one of
                           several; None if it did not come to that.
    :param new_amphora_id: the amphora in its place, likewise.
    :param attempts: how often somebody took it up.
    :param reason: why it ended so, or None.
    :param started_at: when it began, by the database's clock, UTC.
    :param finished_at: when it ended, likewise.
    """

    replacement_id: str
    rollout_id: str | None
    load_balancer_id: str
    mode: str
    canary: bool
    target_image_id: str | None
    old_amphora_id: str | None
    new_amphora_id: str | None
    attempts: int
    reason: str | None
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class ImageReplacementDone(_ImageReplacementEnded):
    """All amphorae of a load balancer have the image."""

    EVENT_TYPE = 'octavia_hmsync.image_replacement.done'
    PRIORITY = payloads.INFO
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ImageReplacementFailed(_ImageReplacementEnded):
    """The amphorae of a load balancer could not be replaced."""

    EVENT_TYPE = 'octavia_hmsync.image_replacement.failed'
    PRIORITY = payloads.WARN
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ImageReplacementSkipped(_ImageReplacementEnded):
    """Something was in the way that passes; it may be tried again.

    :param not_before: when the next attempt may begin, by the database's
                       clock, UTC; None for at once.
    """

    EVENT_TYPE = 'octavia_hmsync.image_replacement.skipped'
    PRIORITY = payloads.INFO
    VERSION = '1.0'

    not_before: datetime.datetime | None


@dataclasses.dataclass(frozen=True)
class ImageReplacementRefused(_ImageReplacementEnded):
    """A load balancer has a fault of its own, and nothing was begun."""

    EVENT_TYPE = 'octavia_hmsync.image_replacement.refused'
    PRIORITY = payloads.WARN
    VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class ImageReplacementCancelled(_ImageReplacementEnded):
    """An operator sent an attempt back that had begun."""

    EVENT_TYPE = 'octavia_hmsync.image_replacement.cancelled'
    PRIORITY = payloads.INFO
    VERSION = '1.0'


ALL = (
    ImageRolloutStarted, ImageRolloutPaused, ImageRolloutResumed,
    ImageRolloutCancelled, ImageRolloutHalted, ImageRolloutDone,
    ImageReplacementStarted, ImageReplacementDone, ImageReplacementFailed,
    ImageReplacementSkipped, ImageReplacementRefused,
    ImageReplacementCancelled)

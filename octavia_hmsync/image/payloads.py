# SPDX-License-Identifier: Apache-2.0

"""Payloads about image upgrades; see the module payloads."""

import dataclasses
import datetime

from octavia_hmsync.sync import payloads


@payloads.event('image_rollout.started', version='1.1')
class ImageRolloutStarted(payloads.Payload):
    """An operator has started a rollout, perhaps to undo another one."""

    rollout_id: str
    mode: str
    reason: str
    undo_of: str | None


@dataclasses.dataclass(frozen=True)
class _ImageRollout(payloads.Payload):
    """A rollout has a new state; running ones end whatever it is."""

    rollout_id: str
    mode: str
    reason: str
    done: int
    failed: int
    skipped: int
    running: int
    refused: int


@payloads.event('image_rollout.paused', version='1.1')
class ImageRolloutPaused(_ImageRollout):
    """An operator has paused a rollout: it begins nothing."""


@payloads.event('image_rollout.resumed', version='1.1')
class ImageRolloutResumed(_ImageRollout):
    """A rollout that was paused goes on."""


@payloads.event('image_rollout.cancelled', version='1.1')
class ImageRolloutCancelled(_ImageRollout):
    """An operator has ended a rollout."""


@payloads.event('image_rollout.halted', payloads.ERROR, version='1.1')
class ImageRolloutHalted(_ImageRollout):
    """A rollout has ended because too many of its replacements failed."""


@payloads.event('image_rollout.done', version='1.1')
class ImageRolloutDone(_ImageRollout):
    """A rollout has ended: nothing is left to replace."""


@payloads.event('image_replacement.started')
class ImageReplacementStarted(payloads.Payload):
    """A housekeeper begins a replacement, of a rollout or ordered alone."""

    replacement_id: str
    rollout_id: str | None
    load_balancer_id: str
    mode: str
    canary: bool
    target_image_id: str | None


@dataclasses.dataclass(frozen=True)
class _ImageReplacementEnded(payloads.Payload):
    """An attempt to replace amphorae has ended.

    :param old_amphora_id: the amphora to be replaced, the last one of
                           several; None if it did not come to that.
    :param new_amphora_id: the amphora in its place, likewise.
    :param attempts: how often a housekeeper took it up.
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


@payloads.event('image_replacement.done')
class ImageReplacementDone(_ImageReplacementEnded):
    """All amphorae of a load balancer have the image."""


@payloads.event('image_replacement.failed', payloads.WARN)
class ImageReplacementFailed(_ImageReplacementEnded):
    """The amphorae of a load balancer could not be replaced."""


@payloads.event('image_replacement.skipped')
class ImageReplacementSkipped(_ImageReplacementEnded):
    """A passing obstacle stopped it; it may be tried again.

    :param not_before: when the next attempt may begin, by the database's
                       clock, UTC; None for at once.
    """

    not_before: datetime.datetime | None


@payloads.event('image_replacement.refused', payloads.WARN)
class ImageReplacementRefused(_ImageReplacementEnded):
    """The load balancer has a fault of its own; nothing was changed."""


@payloads.event('image_replacement.cancelled')
class ImageReplacementCancelled(_ImageReplacementEnded):
    """An operator cancelled an attempt that had begun."""


ALL = (
    ImageRolloutStarted, ImageRolloutPaused, ImageRolloutResumed,
    ImageRolloutCancelled, ImageRolloutHalted, ImageRolloutDone,
    ImageReplacementStarted, ImageReplacementDone, ImageReplacementFailed,
    ImageReplacementSkipped, ImageReplacementRefused,
    ImageReplacementCancelled)

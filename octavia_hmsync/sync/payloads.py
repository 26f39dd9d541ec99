# SPDX-License-Identifier: Apache-2.0

"""Payloads of notifications, one class for each kind of event.

Consumers read fields by name. A new field needs a new minor version of its
class; a field that is removed or changes its meaning needs a new major
version. ``tests/unit/notifications/test_payloads.py`` keeps a fingerprint of
each class, and ``doc/notification_samples`` has a sample.
"""

import dataclasses
import datetime
import typing

from octavia_hmsync.sync.rules import trial

INFO = 'info'
WARN = 'warn'
ERROR = 'error'

# Ids of amphorae in one notification.
AT_ONCE = 100


@typing.dataclass_transform(frozen_default=True)
def event(name, priority=INFO, version='1.0'):
    """Make a class the payload of octavia_hmsync.NAME, a dataclass."""
    def make(payload_class):
        payload_class.EVENT_TYPE = f'octavia_hmsync.{name}'
        payload_class.PRIORITY, payload_class.VERSION = priority, version
        return dataclasses.dataclass(frozen=True)(payload_class)

    return make


@dataclasses.dataclass(frozen=True)
class Payload:
    """What all payloads have in common."""

    EVENT_TYPE: typing.ClassVar[str]
    PRIORITY: typing.ClassVar[str]
    VERSION: typing.ClassVar[str]

    def to_dict(self):
        """Return the plain values to send, with the version."""
        return {'version': self.VERSION, **{
            field.name: _to_plain(getattr(self, field.name))
            for field in dataclasses.fields(self)}}


def _to_plain(value: typing.Any) -> typing.Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec='seconds')
    if isinstance(value, tuple):
        return list(value)
    return value


@dataclasses.dataclass(frozen=True)
class _HealthManager(Payload):
    """A health manager is up, drains, or is down.

    :param address: where it listens, or last listened, for heartbeats.
    :param previous_status: ONLINE, DRAINING or OFFLINE, as announced before;
                            None if nothing was.
    :param previous_address: likewise.
    """

    host: str
    address: str
    previous_status: str | None
    previous_address: str | None


@event('health_manager.up')
class HealthManagerUp(_HealthManager):
    """A health manager is ONLINE, or has another address."""


@event('health_manager.draining')
class HealthManagerDraining(_HealthManager):
    """A health manager is draining: it still listens."""


@event('health_manager.down', WARN)
class HealthManagerDown(_HealthManager):
    """A health manager unregistered, or was silent for offline_after."""


@event('generation.published')
class GenerationPublished(Payload):
    """A new list was published, to CANARY or OPEN."""

    number: int
    controller_ip_port_list: tuple
    status: str
    reason: str
    published_by: str


@event('generation.completed')
class GenerationCompleted(Payload):
    """Every amphora has acknowledged a list."""

    number: int
    controller_ip_port_list: tuple
    published_at: datetime.datetime


@event('generation.rolled_back', ERROR)
class GenerationRolledBack(Payload):
    """A list was withdrawn.

    :param replaced_by: number of the generation that was published in its
                        place, None if there was no good list.
    """

    number: int
    replaced_by: int | None
    suspect_ip_port_list: tuple
    reason: str
    rolled_back_by: str


@dataclasses.dataclass(frozen=True)
class _FailedAmphora(Payload):
    """An amphora has newly failed to get the list of a generation."""

    amphora_id: str
    load_balancer_id: str | None
    generation: int
    error: str


@event('amphora.unreachable', WARN)
class AmphoraUnreachable(_FailedAmphora):
    """The agent of an amphora does not answer."""


@event('amphora.rejected', WARN)
class AmphoraRejected(_FailedAmphora):
    """The agent of an amphora refuses its configuration."""


@event('amphora.unsupported', WARN)
class AmphoraUnsupported(_FailedAmphora):
    """The image of an amphora cannot be configured."""


@event('amphora.recovered')
class AmphoraRecovered(Payload):
    """An amphora that could not be configured has acknowledged a list."""

    amphora_id: str
    load_balancer_id: str | None
    generation: int


@event('amphora.not_adopted', WARN)
class AmphoraNotAdopted(Payload):
    """Amphorae, at most AT_ONCE, acknowledge a list but use another one."""

    amphora_ids: tuple


@event('failover_guard.holding', WARN, version='1.1')
class FailoverGuardHolding(Payload):
    """Failovers of at most AT_ONCE unheard amphorae are on hold.

    :param failover_hold_max: seconds; None for amphorae of a held host.
    :param compute_host: the host, if an operator holds it, or None.
    """

    amphora_ids: tuple
    failover_hold_max: int | None
    compute_host: str | None


@event('failover_guard.released')
class FailoverGuardReleased(Payload):
    """At most AT_ONCE amphorae that were on hold are heard again."""

    amphora_ids: tuple


@event('order.given')
class OrderGiven(Payload):
    """An operator ran a command that changes something; again when it ends.

    :param command: its words.
    :param arguments: the others, as a shell takes them.
    :param state: GIVEN, DONE or FAILED.
    """

    order_id: str
    command: str
    arguments: str
    reason: str | None
    os_user: str
    sudo_user: str | None
    host: str
    state: str
    error: str | None


ALL = (
    HealthManagerUp, HealthManagerDraining, HealthManagerDown,
    GenerationPublished, GenerationCompleted, GenerationRolledBack,
    AmphoraUnreachable, AmphoraRejected, AmphoraUnsupported, AmphoraRecovered,
    AmphoraNotAdopted, FailoverGuardHolding, FailoverGuardReleased,
    OrderGiven)


def split(payload_class, amphora_ids, *values):
    """Make the payloads, with ``amphora_ids`` first, of many amphorae."""
    ids = sorted(amphora_ids)
    return [payload_class(tuple(ids[n:n + AT_ONCE]), *values)
            for n in range(0, len(ids), AT_ONCE)]


def for_roll_back(number, suspects, reason, good_addresses, host):
    """Make a roll back's payloads; good_addresses: published instead."""
    suspects = tuple(suspects)
    if not good_addresses:
        return [GenerationRolledBack(number, None, suspects, reason, host)]
    return [
        GenerationRolledBack(number, number + 1, suspects, reason, host),
        GenerationPublished(
            number + 1, tuple(good_addresses), trial.OPEN,
            f'generation {number} is rolled back: {reason}', host)]

# SPDX-License-Identifier: Apache-2.0

"""The plugin's own tables, in Octavia's database.

They have their own declarative base and alembic version table, and no foreign
key: Octavia's ``to_data_model`` would walk a relationship on its base, and a
foreign key to ``amphora`` would block housekeeping's purge.
"""

import sqlalchemy as sa

from octavia_hmsync.db import cluster_models
from octavia_hmsync.db import image_models
from octavia_hmsync.db import model_base
from octavia_hmsync.db import types

Base = model_base.Base

# All tables are found here, whichever module has them.
Cluster = cluster_models.Cluster
ClusterMember = cluster_models.ClusterMember
MemberLoad = cluster_models.MemberLoad
MemberProbe = cluster_models.MemberProbe
Distributor = cluster_models.Distributor
DistributorInstance = cluster_models.DistributorInstance
DistributorVIP = cluster_models.DistributorVIP
AmphoraView = image_models.AmphoraView
ImageExclusion = image_models.ImageExclusion
ImageReplacement = image_models.ImageReplacement
ImageRollout = image_models.ImageRollout

# Room for some 2000 addresses.
_LIST = sa.Text()


class HealthManager(Base):
    """One row per health manager host: its address, and its keepalive."""

    __tablename__ = 'hmsync_health_manager'
    __table_args__ = (
        sa.UniqueConstraint('ip_address', 'port',
                            name='uq_hmsync_health_manager_address'),
        {'mysql_engine': 'InnoDB'})

    host = sa.Column(sa.String(255), primary_key=True)
    ip_address = sa.Column(sa.String(64), nullable=False)
    port = sa.Column(sa.Integer, nullable=False)
    status = sa.Column(sa.String(36), nullable=False)
    # Id of the process.
    instance = sa.Column(sa.String(36), nullable=False)
    # Of the heartbeat key that it listens with, and of the key that its
    # octavia.conf has by now.
    key_digest = sa.Column(sa.String(64), nullable=True)
    configured_key_digest = sa.Column(sa.String(64), nullable=True)
    # The release of the plugin that it runs.
    plugin_version = sa.Column(sa.String(64), nullable=False)
    # Amphorae of this zone alone reach it; of all zones without one.
    zone = sa.Column(sa.String(255), nullable=True)
    # JSON, {network: its address there}, None without any.
    further_addresses = sa.Column(sa.Text, nullable=True)
    # Whether its statistics driver reports heartbeats; when it first did.
    is_observing = sa.Column(sa.Boolean, nullable=False, default=False)
    heard_at = sa.Column(types.Timestamp, nullable=True)
    online_since = sa.Column(types.Timestamp, nullable=False)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)
    # When its new process, which does not listen yet, reported its start.
    starting_at = sa.Column(types.Timestamp, nullable=True)
    # Seconds from the last goodbye until the next process listened.
    restart_took = sa.Column(sa.Float, nullable=True)
    # When Octavia last ignored heartbeats of it that had waited for too long.
    late_at = sa.Column(types.Timestamp, nullable=True)
    # What the last notification said about it.
    announced = sa.Column(sa.String(160), nullable=True)


class LeftAddress(Base):
    """An address at which a health manager was registered before.

    Without a row here a pinned address counts as alive, because its health
    manager may not have the plugin.
    """

    __tablename__ = 'hmsync_left_address'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    address = sa.Column(sa.String(80), primary_key=True)
    left_at = sa.Column(types.Timestamp, nullable=False)


class Turn(Base):
    """Always empty: the table of ``db.turn``."""

    __tablename__ = 'hmsync_turn'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    name = sa.Column(sa.String(64), primary_key=True)


class HouseKeeper(Base):
    """One row per housekeeper host: its configuration, and its keepalive."""

    __tablename__ = 'hmsync_house_keeper'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    host = sa.Column(sa.String(255), primary_key=True)
    pinned_ip_port_list = sa.Column(_LIST, nullable=False)
    key_digest = sa.Column(sa.String(64), nullable=True)
    # Why it uploads no list, NULL while nothing keeps it from that.
    problem = sa.Column(sa.Text, nullable=True)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)


class Generation(Base):
    """A published controller_ip_port_list.

    The number is the primary key and counts up by one: if several housekeepers
    publish at once, exactly one succeeds.
    """

    __tablename__ = 'hmsync_generation'
    __table_args__ = (
        sa.Index('ix_hmsync_generation_published_at', 'published_at'),
        sa.Index('ix_hmsync_generation_rolled_back_at', 'rolled_back_at'),
        {'mysql_engine': 'InnoDB'})

    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    controller_ip_port_list = sa.Column(_LIST, nullable=False)
    # The slot of each of these addresses, in the same order.
    slots = sa.Column(_LIST, nullable=False)
    # JSON, zone by address, of addresses with a zone; NULL if none has one.
    zones = sa.Column(_LIST, nullable=True)
    # Of the heartbeat key that amphorae get with the list.
    key_digest = sa.Column(sa.String(64), nullable=True)
    reason = sa.Column(sa.Text, nullable=False)
    # Which amphorae may get it, see sync.rules.trial.
    status = sa.Column(sa.String(36), nullable=False)
    # Number of waves that were admitted.
    wave = sa.Column(sa.Integer, nullable=False, default=0)
    # Addresses that a roll back found at fault, and when.
    suspect_ip_port_list = sa.Column(_LIST, nullable=True)
    rolled_back_at = sa.Column(types.Timestamp, nullable=True)
    published_by = sa.Column(sa.String(255), nullable=False)
    published_at = sa.Column(types.Timestamp, nullable=False)
    completed_at = sa.Column(types.Timestamp, nullable=True)


class Amphora(Base):
    """What is known about one amphora's list, and attempts to change it."""

    __tablename__ = 'hmsync_amphora'
    __table_args__ = (
        sa.Index('ix_hmsync_amphora_generation', 'generation'),
        sa.Index('ix_hmsync_amphora_claim_owner', 'claim_owner'),
        sa.Index('ix_hmsync_amphora_next_attempt', 'next_attempt_at',
                 'generation'),
        sa.Index('ix_hmsync_amphora_adopted', 'adopted_at', 'applied_at'),
        sa.Index('ix_hmsync_amphora_applied_at', 'applied_at'),
        sa.Index('ix_hmsync_amphora_held_since', 'held_since'),
        sa.Index('ix_hmsync_amphora_held_host', 'held_host'),
        sa.Index('ix_hmsync_amphora_admitted', 'admitted_generation'),
        {'mysql_engine': 'InnoDB'})

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    # The newest generation that its agent acknowledged, and that list.
    generation = sa.Column(sa.Integer, nullable=True)
    controller_ip_port_list = sa.Column(_LIST, nullable=True)
    applied_at = sa.Column(types.Timestamp, nullable=True)
    # Of the heartbeat key that it got with the list, NULL if not known.
    key_digest = sa.Column(sa.String(64), nullable=True)
    # Of the key that it may still use, with another list.
    previous_key_digest = sa.Column(sa.String(64), nullable=True)
    # When it was seen to use its list, and at which address.
    adopted_at = sa.Column(types.Timestamp, nullable=True)
    adopted_via = sa.Column(sa.String(80), nullable=True)
    # When it was first seen to keep another list.
    not_adopted_at = sa.Column(types.Timestamp, nullable=True)
    # Whether it was ever seen to change its list: its image can do so.
    has_changed_list = sa.Column(sa.Boolean, nullable=False, default=False)
    # The newest generation to which it was admitted as a canary or in a wave.
    admitted_generation = sa.Column(sa.Integer, nullable=True)
    # When it fell silent last while a list was on trial with it.
    fell_silent_at = sa.Column(types.Timestamp, nullable=True)
    # The last attempt: at which generation, how it ended, how many so far.
    attempted_generation = sa.Column(sa.Integer, nullable=True)
    attempts = sa.Column(sa.Integer, nullable=False, default=0)
    result = sa.Column(sa.String(36), nullable=True)
    error = sa.Column(sa.Text, nullable=True)
    next_attempt_at = sa.Column(types.Timestamp, nullable=True)
    # Since when it is held back from failover.
    held_since = sa.Column(types.Timestamp, nullable=True)
    # When the guard last renewed the hold, by the controller's clock.
    held_at = sa.Column(types.Timestamp, nullable=True)
    # The compute host that it was on when an operator held that host last.
    held_host = sa.Column(sa.String(255), nullable=True)
    # The batch that works on it now.
    claim_owner = sa.Column(sa.String(36), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)


class PreviousList(Base):
    """A list that an amphora may be using until it uses its newest."""

    __tablename__ = 'hmsync_previous_list'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    # NULL for any list that it may have got before before_generation, or ever
    # if that is NULL, too.
    controller_ip_port_list = sa.Column(_LIST, nullable=True)
    before_generation = sa.Column(sa.Integer, nullable=True)


class Uploader(Base):
    """A service that uploads, on one controller; see sync.rules.reach."""

    __tablename__ = 'hmsync_uploader'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    # Service and host, as in a log.
    name = sa.Column(sa.String(320), primary_key=True)
    # When an amphora last answered it, and the beginning of the first
    # unanswered attempt since; the number of amphorae that did not answer,
    # and how many of these another uploader has reached.
    reached_at = sa.Column(types.Timestamp, nullable=True)
    failing_since = sa.Column(types.Timestamp, nullable=True)
    failures = sa.Column(sa.Integer, nullable=False, default=0)
    overtaken = sa.Column(sa.Integer, nullable=False, default=0)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)


class Attempt(Base):
    """One uploader's failed attempts at one amphora."""

    __tablename__ = 'hmsync_attempt'
    __table_args__ = (
        sa.Index('ix_hmsync_attempt_next', 'uploader', 'next_attempt_at'),
        {'mysql_engine': 'InnoDB'})

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    uploader = sa.Column(sa.String(320), primary_key=True)
    # The newest generation that it tried, and how often.
    generation = sa.Column(sa.Integer, nullable=False)
    attempts = sa.Column(sa.Integer, nullable=False)
    # Whether no attempt got an answer.
    is_unanswered = sa.Column(sa.Boolean, nullable=False)
    # When the first attempt began, and when the next one is due.
    first_tried_at = sa.Column(types.Timestamp, nullable=False)
    next_attempt_at = sa.Column(types.Timestamp, nullable=False)


class Heartbeat(Base):
    """Where an amphora was heard, until it is known which list it uses."""

    __tablename__ = 'hmsync_heartbeat'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    address = sa.Column(sa.String(80), primary_key=True)
    heard_at = sa.Column(types.Timestamp, nullable=False)


class Pause(Base):
    """One row while uploads are paused, none otherwise."""

    __tablename__ = 'hmsync_pause'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    # There is only number 1.
    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    reason = sa.Column(sa.Text, nullable=False)
    begun_at = sa.Column(types.Timestamp, nullable=False)
    ends_at = sa.Column(types.Timestamp, nullable=False)


class HostHold(Base):
    """A compute host that an operator holds, for a reboot."""

    __tablename__ = 'hmsync_host_hold'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    host = sa.Column(sa.String(255), primary_key=True)
    ends_at = sa.Column(types.Timestamp, nullable=False)


class ZoneDrain(Base):
    """A compute zone that amphorae leave; once it has ended, a balance is due.

    A balance evens out clusters and pairs over their zones.
    """

    __tablename__ = 'hmsync_zone_drain'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    zone = sa.Column(sa.String(255), primary_key=True)
    ends_at = sa.Column(types.Timestamp, nullable=False)
    # Whether health managers of this zone leave the list meanwhile.
    with_health_managers = sa.Column(sa.Boolean, nullable=False)
    # Where is built meanwhile what has no zone by a profile.
    build_in = sa.Column(sa.String(255), nullable=True)


class Network(Base):
    """An amphora management network that the plugin manages, by its name."""

    __tablename__ = 'hmsync_network'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    name = sa.Column(sa.String(255), primary_key=True)
    # What Neutron calls it; none before it is made.
    network_id = sa.Column(sa.String(36), nullable=True)
    subnet_id = sa.Column(sa.String(36), nullable=True)
    amphora_security_group_id = sa.Column(sa.String(36), nullable=True)
    health_manager_security_group_id = sa.Column(sa.String(36),
                                                 nullable=True)
    ensured_at = sa.Column(types.Timestamp, nullable=True)
    # Number of repairs, and when a housekeeper last looked at it.
    repairs = sa.Column(sa.Integer, nullable=False, default=0)
    reconciled_at = sa.Column(types.Timestamp, nullable=True)
    # Who works on it now.
    claim_owner = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)


class Port(Base):
    """The port of a node in the management network."""

    __tablename__ = 'hmsync_port'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    # [DEFAULT] host of its health manager.
    host = sa.Column(sa.String(255), primary_key=True)
    # What Neutron calls it; none before it is made.
    port_id = sa.Column(sa.String(36), nullable=True)
    mac = sa.Column(sa.String(32), nullable=True)
    ip_addresses = sa.Column(sa.Text, nullable=True)
    # The node, as Neutron's agents call it.
    binding_host = sa.Column(sa.String(255), nullable=True)
    # When its health manager was first seen, NULL before; when the node last
    # plugged it, NULL if another tool plugs it.
    registered_at = sa.Column(types.Timestamp, nullable=True)
    plugged_at = sa.Column(types.Timestamp, nullable=True)
    repairs = sa.Column(sa.Integer, nullable=False, default=0)
    # Who works on it now.
    claim_owner = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)


class Order(Base):
    """What an operator ordered with a command, and how it ended."""

    __tablename__ = 'hmsync_order'
    __table_args__ = (
        sa.Index('ix_hmsync_order_created', 'created_at'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    # Its words, and the other arguments as a shell takes them.
    command = sa.Column(sa.String(255), nullable=False)
    arguments = sa.Column(sa.Text, nullable=False)
    reason = sa.Column(sa.Text, nullable=True)
    # Who ran it; who called sudo for that, or NULL; and where.
    os_user = sa.Column(sa.String(255), nullable=False)
    sudo_user = sa.Column(sa.String(255), nullable=True)
    host = sa.Column(sa.String(255), nullable=False)
    # GIVEN until it is DONE or has FAILED, with the error.
    state = sa.Column(sa.String(36), nullable=False)
    error = sa.Column(sa.Text, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    finished_at = sa.Column(types.Timestamp, nullable=True)


class News(model_base.Base):
    """Something that happened, until a housekeeper notifies of it.

    The row is written in the transaction of the event. The housekeeper
    that deletes the row sends the notification.
    """

    __tablename__ = 'hmsync_news'
    __table_args__ = {'mysql_engine': 'InnoDB'}

    id = sa.Column(sa.Integer, primary_key=True, autoincrement=True)
    kind = sa.Column(sa.String(36), nullable=False)
    # The facts, JSON.
    body = sa.Column(sa.Text, nullable=False)
    created_at = sa.Column(types.Timestamp, nullable=False)

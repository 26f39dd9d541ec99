# SPDX-License-Identifier: Apache-2.0

"""The plugin's own tables, in Octavia's database.

They have a declarative base and an alembic version table of their own and no
foreign key: a relationship on Octavia's base would be walked by its
``to_data_model``, and a foreign key to ``amphora`` would block
housekeeping's purge.
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
ClusterNews = cluster_models.ClusterNews
MemberSight = cluster_models.MemberSight
Distributor = cluster_models.Distributor
DistributorInstance = cluster_models.DistributorInstance
DistributorVIP = cluster_models.DistributorVIP
AmphoraView = image_models.AmphoraView
ImageExclusion = image_models.ImageExclusion
ImageReplacement = image_models.ImageReplacement
ImageRollout = image_models.ImageRollout

# Longest list that fits Octavia's own practice by far: some 2000 addresses.
_LIST = sa.Text()


class HealthManager(Base):
    """One row per health manager host: its address, and whether it lives."""

    __tablename__ = 'hmsync_health_manager'
    __table_args__ = (
        sa.UniqueConstraint('ip_address', 'port',
                            name='uq_hmsync_health_manager_address'),
        {'mysql_engine': 'InnoDB'})

    host = sa.Column(sa.String(255), primary_key=True)
    ip_address = sa.Column(sa.String(64), nullable=False)
    port = sa.Column(sa.Integer, nullable=False)
    status = sa.Column(sa.String(36), nullable=False)
    # Tells one process from the next one of the same host.
    instance = sa.Column(sa.String(36), nullable=False)
    # Tells whether the heartbeat key that it listens with is another
    # controller's, too; and what its octavia.conf has by now.
    key_digest = sa.Column(sa.String(64), nullable=True)
    configured_key_digest = sa.Column(sa.String(64), nullable=True)
    # The release of the plugin that it runs.
    plugin_version = sa.Column(sa.String(64), nullable=True)
    # Amphorae of this zone alone reach it; of all zones without one.
    zone = sa.Column(sa.String(255), nullable=True)
    # Whether its statistics driver says what it hears; when it first did.
    is_observing = sa.Column(sa.Boolean, nullable=False, default=False)
    heard_at = sa.Column(types.Timestamp, nullable=True)
    online_since = sa.Column(types.Timestamp, nullable=False)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)
    # When a process of it that does not listen yet said so; how long the last
    # one took from the goodbye of the one before until it listened there.
    starting_at = sa.Column(types.Timestamp, nullable=True)
    restart_took = sa.Column(sa.Float, nullable=True)
    # What the last notification said of it.
    announced = sa.Column(sa.String(160), nullable=True)


class LeftAddress(Base):
    """An address at which a health manager had registered, and no more.

    A pinned address is taken for alive as long as nobody registered there; one
    that is here is not.
    """

    __tablename__ = 'hmsync_left_address'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    address = sa.Column(sa.String(80), primary_key=True)
    left_at = sa.Column(types.Timestamp, nullable=False)


class Turn(Base):
    """Always empty.

    Transactions that must not overlap write a row, and delete it.
    """

    __tablename__ = 'hmsync_turn'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    name = sa.Column(sa.String(64), primary_key=True)


class HouseKeeper(Base):
    """One row per housekeeper host: what its configuration file says."""

    __tablename__ = 'hmsync_house_keeper'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    host = sa.Column(sa.String(255), primary_key=True)
    pinned_ip_port_list = sa.Column(_LIST, nullable=False)
    key_digest = sa.Column(sa.String(64), nullable=True)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)
    # The same of a release that replaces amphorae; none of an earlier one.
    replacer_at = sa.Column(types.Timestamp, nullable=True)


class Generation(Base):
    """A published controller_ip_port_list.

    The number is the primary key and counts up by one, so that of several
    housekeepers publishing at once exactly one succeeds.
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
    # JSON, zone by address, of those that have one; nothing if none has.
    zones = sa.Column(_LIST, nullable=True)
    # The heartbeat key that amphorae get with it: all of these addresses
    # listen with it.
    key_digest = sa.Column(sa.String(64), nullable=True)
    reason = sa.Column(sa.Text, nullable=False)
    # How far it may go, see sync.rules.trial; how many waves were admitted.
    status = sa.Column(sa.String(36), nullable=False)
    wave = sa.Column(sa.Integer, nullable=False, default=0)
    # What a roll back found fault with, and when.
    suspect_ip_port_list = sa.Column(_LIST, nullable=True)
    rolled_back_at = sa.Column(types.Timestamp, nullable=True)
    published_by = sa.Column(sa.String(255), nullable=False)
    published_at = sa.Column(types.Timestamp, nullable=False)
    completed_at = sa.Column(types.Timestamp, nullable=True)


class Amphora(Base):
    """What is known of one amphora's list, and the attempts to change it."""

    __tablename__ = 'hmsync_amphora'
    __table_args__ = (
        sa.Index('ix_hmsync_amphora_generation', 'generation'),
        sa.Index('ix_hmsync_amphora_claim_owner', 'claim_owner'),
        sa.Index('ix_hmsync_amphora_next_attempt', 'next_attempt_at',
                 'generation'),
        sa.Index('ix_hmsync_amphora_adopted', 'adopted_at', 'applied_at'),
        sa.Index('ix_hmsync_amphora_applied_at', 'applied_at'),
        sa.Index('ix_hmsync_amphora_held_since', 'held_since'),
        sa.Index('ix_hmsync_amphora_admitted', 'admitted_generation'),
        {'mysql_engine': 'InnoDB'})

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    # The newest generation that its agent acknowledged, and that list.
    generation = sa.Column(sa.Integer, nullable=True)
    controller_ip_port_list = sa.Column(_LIST, nullable=True)
    applied_at = sa.Column(types.Timestamp, nullable=True)
    # The heartbeat key that it signs with since then, None if not known.
    key_digest = sa.Column(sa.String(64), nullable=True)
    # With which it may go on signing, with another list than that.
    previous_key_digest = sa.Column(sa.String(64), nullable=True)
    # Of release 0005 and before, which kept in it what hmsync_previous_list
    # has; whatever is in it was written by such a release.
    previous_ip_port_lists = sa.Column(_LIST, nullable=True)
    # When it was seen to use its list, and at which address.
    adopted_at = sa.Column(types.Timestamp, nullable=True)
    adopted_via = sa.Column(sa.String(80), nullable=True)
    # When it was first seen to go on with another list than that.
    not_adopted_at = sa.Column(types.Timestamp, nullable=True)
    # Whether it was ever seen to go from one list to another: its image can.
    has_changed_list = sa.Column(sa.Boolean, nullable=False, default=False)
    # The newest generation whose canaries or waves it is one of.
    admitted_generation = sa.Column(sa.Integer, nullable=True)
    # When it fell silent last while a list was on trial with it.
    fell_silent_at = sa.Column(types.Timestamp, nullable=True)
    # The last attempt: at which generation, how it ended, how many so far.
    attempted_generation = sa.Column(sa.Integer, nullable=True)
    attempts = sa.Column(sa.Integer, nullable=False, default=0)
    result = sa.Column(sa.String(36), nullable=True)
    error = sa.Column(sa.Text, nullable=True)
    next_attempt_at = sa.Column(types.Timestamp, nullable=True)
    # Held back from failover: since when, and when for the last time, by the
    # controller's clock.
    held_since = sa.Column(types.Timestamp, nullable=True)
    held_at = sa.Column(types.Timestamp, nullable=True)
    # The batch that works on it now.
    claim_owner = sa.Column(sa.String(36), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)


class PreviousList(Base):
    """Another list that an amphora may be using instead of its newest.

    Until it is seen to use that one.
    """

    __tablename__ = 'hmsync_previous_list'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    # None: any list that it can have got before that generation, or ever.
    controller_ip_port_list = sa.Column(_LIST, nullable=True)
    before_generation = sa.Column(sa.Integer, nullable=True)


class Uploader(Base):
    """A service that uploads, on one controller: whom it can reach."""

    __tablename__ = 'hmsync_uploader'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    # Service and host, as in a log.
    name = sa.Column(sa.String(320), primary_key=True)
    # When somebody answered it for the last time, and the beginning of the
    # first attempt since then at which nobody did; at how many amphorae
    # there was one, and how many of these another one has reached.
    reached_at = sa.Column(types.Timestamp, nullable=True)
    failing_since = sa.Column(types.Timestamp, nullable=True)
    failures = sa.Column(sa.Integer, nullable=False, default=0)
    overtaken = sa.Column(sa.Integer, nullable=False, default=0)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)


class Attempt(Base):
    """What one uploader's attempts at one amphora came to, all in vain."""

    __tablename__ = 'hmsync_attempt'
    __table_args__ = (
        sa.Index('ix_hmsync_attempt_next', 'uploader', 'next_attempt_at'),
        {'mysql_engine': 'InnoDB'})

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    uploader = sa.Column(sa.String(320), primary_key=True)
    # The newest generation that it tried, and how often.
    generation = sa.Column(sa.Integer, nullable=False)
    attempts = sa.Column(sa.Integer, nullable=False)
    # Whether nobody answered at its address, each of these times.
    is_unanswered = sa.Column(sa.Boolean, nullable=False)
    # When the first of these began, and when the next one is to.
    first_tried_at = sa.Column(types.Timestamp, nullable=False)
    next_attempt_at = sa.Column(types.Timestamp, nullable=False)


class Heartbeat(Base):
    """Where an amphora was heard, as long as that tells which list it uses."""

    __tablename__ = 'hmsync_heartbeat'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    address = sa.Column(sa.String(80), primary_key=True)
    heard_at = sa.Column(types.Timestamp, nullable=False)


class Pause(Base):
    """One row while no amphora is to be uploaded to, none otherwise."""

    __tablename__ = 'hmsync_pause'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    # There is only number 1.
    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    reason = sa.Column(sa.Text, nullable=False)
    begun_at = sa.Column(types.Timestamp, nullable=False)
    ends_at = sa.Column(types.Timestamp, nullable=False)


class Network(Base):
    """An amphora management network that is ours, by its name."""

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
    # How often something was put right, and when it was last looked at.
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
    # Since when its health manager has been known, none before; when the
    # node plugged it last; never, where another tool does that.
    registered_at = sa.Column(types.Timestamp, nullable=True)
    plugged_at = sa.Column(types.Timestamp, nullable=True)
    repairs = sa.Column(sa.Integer, nullable=False, default=0)
    # Who works on it now.
    claim_owner = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)

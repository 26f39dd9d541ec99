#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The plugin's own tables, in Octavia's database.

They have a declarative base and an alembic version table of their own and no
foreign key: a relationship on Octavia's base would be walked by its
``to_data_model``, and a foreign key to ``amphora`` would block
housekeeping's purge.
"""

import typing

import sqlalchemy as sa
from sqlalchemy import orm

from octavia_hmsync.db import types


class Base(orm.DeclarativeBase):
    """What the tables share: their metadata."""

    __table__: typing.ClassVar[sa.Table]


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
    # Tells whether its heartbeat key is another controller's, too.
    key_digest = sa.Column(sa.String(64), nullable=True)
    # The release of the plugin that it runs.
    plugin_version = sa.Column(sa.String(64), nullable=True)
    # Whether its statistics driver says what it hears; when it first did.
    is_observing = sa.Column(sa.Boolean, nullable=False, default=False)
    heard_at = sa.Column(types.Timestamp, nullable=True)
    online_since = sa.Column(types.Timestamp, nullable=False)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)
    # What the last notification said of it.
    announced = sa.Column(sa.String(160), nullable=True)


class HouseKeeper(Base):
    """One row per housekeeper host: what its configuration file pins."""

    __tablename__ = 'hmsync_house_keeper'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    host = sa.Column(sa.String(255), primary_key=True)
    pinned_ip_port_list = sa.Column(_LIST, nullable=False)
    keepalive_at = sa.Column(types.Timestamp, nullable=False)


class Generation(Base):
    """A published controller_ip_port_list.

    The number is the primary key and counts up by one, so that of several
    housekeepers publishing at once exactly one succeeds.
    """

    __tablename__ = 'hmsync_generation'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    controller_ip_port_list = sa.Column(_LIST, nullable=False)
    # The slot of each of these addresses, in the same order.
    slots = sa.Column(_LIST, nullable=False)
    reason = sa.Column(sa.Text, nullable=False)
    # How far it may go, see membership.trial; how many waves were admitted.
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
        {'mysql_engine': 'InnoDB'})

    amphora_id = sa.Column(sa.String(36), primary_key=True)
    # The newest generation that its agent acknowledged, and that list.
    generation = sa.Column(sa.Integer, nullable=True)
    controller_ip_port_list = sa.Column(_LIST, nullable=True)
    applied_at = sa.Column(types.Timestamp, nullable=True)
    # The other lists that it may be using until it is seen to use this one,
    # one per line; see repositories.doubt.
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

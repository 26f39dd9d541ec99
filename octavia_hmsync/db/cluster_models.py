# SPDX-License-Identifier: Apache-2.0

"""The tables of clusters; see ``octavia_hmsync.db.models``.

Members, and VIPs on distributors, are changed by whoever has changed the row
of their cluster in the same transaction, before: so none of two at once sees
half of what the other one does, at another node of Galera neither.
"""

import sqlalchemy as sa

from octavia_hmsync.db import model_base
from octavia_hmsync.db import types


class Cluster(model_base.Base):
    """The amphorae of one load balancer, as its operator wants them."""

    __tablename__ = 'hmsync_cluster'
    __table_args__ = (
        sa.UniqueConstraint('load_balancer_id',
                            name='uq_hmsync_cluster_load_balancer'),
        sa.Index('ix_hmsync_cluster_claim', 'claim_expires_at'),
        sa.Index('ix_hmsync_cluster_updated', 'updated_at'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    cluster_name = sa.Column(sa.String(255), nullable=False)
    desired_size = sa.Column(sa.Integer, nullable=False)
    # With fewer ACTIVE ones the load balancer is in ERROR.
    min_size = sa.Column(sa.Integer, nullable=False)
    # Seconds between two changes of its size.
    cooldown = sa.Column(sa.Integer, nullable=False)
    load_balancer_id = sa.Column(sa.String(36), nullable=False)
    # The name of the distributor driver.
    distributor = sa.Column(sa.String(64), nullable=False)
    provisioning_status = sa.Column(sa.String(16), nullable=False)
    operating_status = sa.Column(sa.String(16), nullable=False)
    enabled = sa.Column(sa.Boolean, nullable=False, default=True)
    # Who manages it.
    cluster_type = sa.Column(sa.String(36), nullable=False)
    # What a distributor looks at, FLOW or SOURCE_IP.
    affinity = sa.Column(sa.String(36), nullable=False)
    # Of so many members the stick tables are shared.
    peer_group_size = sa.Column(sa.Integer, nullable=False)
    # How many more wait without a slot.
    standby = sa.Column(sa.Integer, nullable=False)
    # What it is being brought to, which follows desired_size after the
    # cooldown; none of one that a release before has made.
    size = sa.Column(sa.Integer, nullable=True)
    # When that was changed last.
    resized_at = sa.Column(types.Timestamp, nullable=True)
    # When another distributor became the active one for what somebody sees,
    # or as the one before did not answer; and for how many seconds no sight
    # moves the VIP again.
    vip_moved_at = sa.Column(types.Timestamp, nullable=True)
    vip_hold = sa.Column(sa.Integer, nullable=True)
    # TCP ports that all members serve, for who looks at them: 80,443.
    ports = sa.Column(sa.Text, nullable=True)
    # Counts up with each change of what distributors are to do.
    version = sa.Column(sa.Integer, nullable=False)
    # Who works on it now.
    claimed_by = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    updated_at = sa.Column(types.Timestamp, nullable=False)


class ClusterMember(model_base.Base):
    """An amphora of a cluster, from the decision to build it on."""

    __tablename__ = 'hmsync_cluster_member'
    __table_args__ = (
        sa.UniqueConstraint('cluster_id', 'slot',
                            name='uq_hmsync_cluster_member_slot'),
        sa.UniqueConstraint('amphora_id',
                            name='uq_hmsync_cluster_member_amphora'),
        sa.Index('ix_hmsync_cluster_member_state', 'state'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    cluster_id = sa.Column(sa.String(36), nullable=False)
    # None until it is built.
    amphora_id = sa.Column(sa.String(36), nullable=True)
    # Its place in what distributors compute. None of a standby one, and of
    # one that was unregistered.
    slot = sa.Column(sa.Integer, nullable=True)
    peer_group = sa.Column(sa.Integer, nullable=True)
    state = sa.Column(sa.String(36), nullable=False)
    health = sa.Column(sa.String(36), nullable=True)
    # Of the configuration that its agent took last.
    config_digest = sa.Column(sa.String(64), nullable=True)
    # Of its front-end port.
    mac = sa.Column(sa.String(32), nullable=True)
    error = sa.Column(sa.Text, nullable=True)
    # What somebody has ordered for it, DRAIN or REPLACE.
    ordered = sa.Column(sa.String(36), nullable=True)
    # The availability zone that it is built in.
    zone = sa.Column(sa.String(255), nullable=True)
    # Seconds for which a connection of it may be silent: the longest of all
    # that its listeners ever had, as a haproxy of before goes on with those.
    # None of one that a release before has made.
    idle_timeout = sa.Column(sa.Integer, nullable=True)
    # Open ones when somebody looked last, while it drains.
    connections = sa.Column(sa.Integer, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    updated_at = sa.Column(types.Timestamp, nullable=False)


class MemberSight(model_base.Base):
    """What a distributor sees of the front end of a member."""

    __tablename__ = 'hmsync_member_sight'
    __table_args__ = (
        sa.Index('ix_hmsync_member_sight_distributor', 'distributor_id'),
        sa.Index('ix_hmsync_member_sight_state', 'state'),
        {'mysql_engine': 'InnoDB'})

    member_id = sa.Column(sa.String(36), primary_key=True)
    distributor_id = sa.Column(sa.String(36), primary_key=True)
    # UP or DOWN, since when, and what is wrong.
    state = sa.Column(sa.String(36), nullable=False)
    changed_at = sa.Column(types.Timestamp, nullable=False)
    error = sa.Column(sa.Text, nullable=True)


class Distributor(model_base.Base):
    """What spreads the connections of clusters over their members."""

    __tablename__ = 'hmsync_distributor'
    __table_args__ = (
        sa.UniqueConstraint('driver', 'name',
                            name='uq_hmsync_distributor_name'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    # The host, as Neutron knows it.
    name = sa.Column(sa.String(255), nullable=False)
    url = sa.Column(sa.String(255), nullable=False)
    driver = sa.Column(sa.String(64), nullable=False)
    # Gets new VIPs.
    enabled = sa.Column(sa.Boolean, nullable=False, default=True)
    # An operator wants no VIP there, though it is enabled.
    drained = sa.Column(sa.Boolean, nullable=True)
    status = sa.Column(sa.String(36), nullable=False)
    software_version = sa.Column(sa.String(64), nullable=True)
    last_seen = sa.Column(types.Timestamp, nullable=True)
    # When the first certificate of its API ends; none where it does not say.
    certificate_expires_at = sa.Column(types.Timestamp, nullable=True)


class DistributorInstance(model_base.Base):
    """A distributor that controllers have booted, or are booting."""

    __tablename__ = 'hmsync_distributor_instance'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    id = sa.Column(sa.String(36), primary_key=True)
    # BUILDING, READY, LEAVING.
    state = sa.Column(sa.String(36), nullable=False)
    # Of the compute service; the name of the distributor.
    compute_id = sa.Column(sa.String(255), nullable=True)
    # In the management network.
    address = sa.Column(sa.String(64), nullable=True)
    # When the compute service was asked for it, none before; of one that is
    # READY when it answered first.
    booted_at = sa.Column(types.Timestamp, nullable=True)
    # When its certificate ends.
    expires_at = sa.Column(types.Timestamp, nullable=True)
    # Why it is to go, or could not be booted.
    reason = sa.Column(sa.Text, nullable=True)
    # Who works on it now.
    claimed_by = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)


class DistributorVIP(model_base.Base):
    """The VIP of a cluster on one of its distributors."""

    __tablename__ = 'hmsync_distributor_vip'
    __table_args__ = (
        sa.UniqueConstraint('cluster_id', 'distributor_id',
                            name='uq_hmsync_distributor_vip_cluster'),
        sa.UniqueConstraint('cluster_id', 'active',
                            name='uq_hmsync_distributor_vip_active'),
        sa.Index('ix_hmsync_distributor_vip_distributor', 'distributor_id'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    cluster_id = sa.Column(sa.String(36), nullable=False)
    distributor_id = sa.Column(sa.String(36), nullable=False)
    port_id = sa.Column(sa.String(36), nullable=True)
    mac = sa.Column(sa.String(32), nullable=True)
    # Of the network of the port.
    mtu = sa.Column(sa.Integer, nullable=True)
    # Of that port, separated by commas; none while nobody has asked.
    addresses = sa.Column(sa.Text, nullable=True)
    # True of the one that answers ARP, none of the others.
    active = sa.Column(sa.Boolean, nullable=True)
    # The version of the cluster that is in force there, and whether it
    # answers ARP with that; the latter is not known of one that was told
    # nothing yet, or whose port was switched off.
    applied_version = sa.Column(sa.Integer, nullable=True)
    applied_active = sa.Column(sa.Boolean, nullable=True)
    applied_at = sa.Column(types.Timestamp, nullable=True)
    error = sa.Column(sa.Text, nullable=True)


class ClusterNews(model_base.Base):
    """Something that happened to a cluster, until it is told.

    Written in the transaction in which it happens; whoever deletes it tells.
    """

    __tablename__ = 'hmsync_cluster_news'
    __table_args__ = {'mysql_engine': 'InnoDB'}

    id = sa.Column(sa.Integer, primary_key=True, autoincrement=True)
    kind = sa.Column(sa.String(36), nullable=False)
    # What is known of it, JSON.
    body = sa.Column(sa.Text, nullable=False)
    created_at = sa.Column(types.Timestamp, nullable=False)

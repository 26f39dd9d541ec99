# SPDX-License-Identifier: Apache-2.0

"""The tables of clusters; see ``octavia_hmsync.db.models``.

A transaction that changes members, or VIPs on distributors, changes the row of
their cluster first. So no other transaction sees half of its changes, not even
at another node of Galera.
"""

import sqlalchemy as sa

from octavia_hmsync.db import model_base
from octavia_hmsync.db import types


class Cluster(model_base.Base):
    """A load balancer with several amphorae, as its operator wants them."""

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
    # With fewer ACTIVE members the load balancer is in ERROR.
    min_size = sa.Column(sa.Integer, nullable=False)
    # Seconds between two changes of its size.
    cooldown = sa.Column(sa.Integer, nullable=False)
    load_balancer_id = sa.Column(sa.String(36), nullable=False)
    # The name of the distributor driver.
    distributor = sa.Column(sa.String(64), nullable=False)
    provisioning_status = sa.Column(sa.String(16), nullable=False)
    operating_status = sa.Column(sa.String(16), nullable=False)
    # Whether Octavia's API has locked the load balancer until members that
    # are ordered to be replaced are.
    is_failing_over = sa.Column(sa.Boolean, nullable=False, default=False)
    enabled = sa.Column(sa.Boolean, nullable=False, default=True)
    # Who manages it.
    cluster_type = sa.Column(sa.String(36), nullable=False)
    # What a distributor looks at to choose a member, FLOW or SOURCE_IP.
    affinity = sa.Column(sa.String(36), nullable=False)
    # Number of members that share their stick tables.
    peer_group_size = sa.Column(sa.Integer, nullable=False)
    # Number of further members that wait without a slot.
    standby = sa.Column(sa.Integer, nullable=False)
    # What it is being brought to, which follows desired_size after the
    # cooldown.
    size = sa.Column(sa.Integer, nullable=False)
    # When that was changed last.
    resized_at = sa.Column(types.Timestamp, nullable=True)
    # When the VIP last moved to another distributor because of probes, or
    # because the active one did not answer; and for how many seconds probes
    # do not move it again.
    vip_moved_at = sa.Column(types.Timestamp, nullable=True)
    vip_hold = sa.Column(sa.Integer, nullable=True)
    # When a member last died, and for how many seconds after that none is
    # built, because its replacements die, too.
    member_died_at = sa.Column(types.Timestamp, nullable=True)
    build_hold = sa.Column(sa.Integer, nullable=True)
    # TCP ports that all members serve, for distributors to check: 80,443.
    ports = sa.Column(sa.Text, nullable=True)
    # Counts up with each change of what distributors are to do.
    version = sa.Column(sa.Integer, nullable=False)
    # Who works on it now.
    claimed_by = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    updated_at = sa.Column(types.Timestamp, nullable=False)


class ClusterMember(model_base.Base):
    """An amphora of a cluster; the row exists before the amphora is built."""

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
    # NULL until the amphora is built.
    amphora_id = sa.Column(sa.String(36), nullable=True)
    # Its place in what distributors compute. NULL for a standby, and for an
    # unregistered member.
    slot = sa.Column(sa.Integer, nullable=True)
    peer_group = sa.Column(sa.Integer, nullable=True)
    state = sa.Column(sa.String(36), nullable=False)
    health = sa.Column(sa.String(36), nullable=True)
    # Of the configuration that its agent last took.
    config_digest = sa.Column(sa.String(64), nullable=True)
    # Of its front-end port.
    mac = sa.Column(sa.String(32), nullable=True)
    error = sa.Column(sa.Text, nullable=True)
    # An order for it, DRAIN or REPLACE.
    ordered = sa.Column(sa.String(36), nullable=True)
    # The availability zone that it is built in.
    zone = sa.Column(sa.String(255), nullable=True)
    # Its compute host, where a manager asks for it.
    host = sa.Column(sa.String(255), nullable=True)
    # Seconds for which a connection of it may be silent: the longest timeout
    # that its listeners ever had, because a haproxy from before a reload
    # keeps its own.
    idle_timeout = sa.Column(sa.Integer, nullable=False)
    # Open connections while it drains, when a housekeeper last looked.
    connections = sa.Column(sa.Integer, nullable=True)
    # Since when distributors send nothing new to it; NULL if it does not
    # drain, or they do not know that yet.
    drained_at = sa.Column(types.Timestamp, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    updated_at = sa.Column(types.Timestamp, nullable=False)


class MemberProbe(model_base.Base):
    """What a distributor, or the health managers, see of a member."""

    __tablename__ = 'hmsync_member_probe'
    __table_args__ = (
        sa.Index('ix_hmsync_member_probe_distributor', 'distributor_id'),
        sa.Index('ix_hmsync_member_probe_state', 'state'),
        {'mysql_engine': 'InnoDB'})

    member_id = sa.Column(sa.String(36), primary_key=True)
    distributor_id = sa.Column(sa.String(36), primary_key=True)
    # UP or DOWN, since when, and why.
    state = sa.Column(sa.String(36), nullable=False)
    changed_at = sa.Column(types.Timestamp, nullable=False)
    error = sa.Column(sa.Text, nullable=True)


class MemberLoad(model_base.Base):
    """What the heartbeats of a member have counted until one of them."""

    __tablename__ = 'hmsync_member_load'
    __table_args__ = {'mysql_engine': 'InnoDB'}

    member_id = sa.Column(sa.String(36), primary_key=True)
    heard_at = sa.Column(types.Timestamp, nullable=False)
    # Open ones, and all so far.
    connections = sa.Column(sa.BigInteger, nullable=False)
    total_connections = sa.Column(sa.BigInteger, nullable=False)
    total_bytes = sa.Column(sa.BigInteger, nullable=False)
    # For each second, since the heartbeat before; NULL if not known.
    connection_rate = sa.Column(sa.Float, nullable=True)
    byte_rate = sa.Column(sa.Float, nullable=True)


class Distributor(model_base.Base):
    """It spreads the connections of clusters over their members."""

    __tablename__ = 'hmsync_distributor'
    __table_args__ = (
        sa.UniqueConstraint('driver', 'name',
                            name='uq_hmsync_distributor_name'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    # The host, by Neutron's name.
    name = sa.Column(sa.String(255), nullable=False)
    url = sa.Column(sa.String(255), nullable=False)
    driver = sa.Column(sa.String(64), nullable=False)
    # Whether the option names it: it gets new VIPs.
    enabled = sa.Column(sa.Boolean, nullable=False, default=True)
    # An operator wants no VIP there, though it is enabled.
    drained = sa.Column(sa.Boolean, nullable=False, default=False)
    status = sa.Column(sa.String(36), nullable=False)
    software_version = sa.Column(sa.String(64), nullable=True)
    last_seen = sa.Column(types.Timestamp, nullable=True)
    # When the first certificate of its API ends; NULL if not known.
    certificate_expires_at = sa.Column(types.Timestamp, nullable=True)


class DistributorInstance(model_base.Base):
    """A distributor that controllers boot in the compute service."""

    __tablename__ = 'hmsync_distributor_instance'
    __table_args__ = ({'mysql_engine': 'InnoDB'},)

    id = sa.Column(sa.String(36), primary_key=True)
    # BUILDING, READY, LEAVING.
    state = sa.Column(sa.String(36), nullable=False)
    # Of the compute service; the name of the distributor.
    compute_id = sa.Column(sa.String(255), nullable=True)
    # In the management network.
    address = sa.Column(sa.String(64), nullable=True)
    # When the compute service was asked for it; once it is READY, when it
    # first answered.
    booted_at = sa.Column(types.Timestamp, nullable=True)
    # When its certificate ends.
    expires_at = sa.Column(types.Timestamp, nullable=True)
    # Why it is to go, or did not boot.
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
    # Of that port, separated by commas; NULL if not known.
    addresses = sa.Column(sa.Text, nullable=True)
    # True for the distributor that answers ARP, NULL for the others.
    active = sa.Column(sa.Boolean, nullable=True)
    # The version of the cluster that is in force there, and whether it
    # answers ARP with that; applied_active is NULL before the first version,
    # and after its port was switched off.
    applied_version = sa.Column(sa.Integer, nullable=True)
    applied_active = sa.Column(sa.Boolean, nullable=True)
    applied_at = sa.Column(types.Timestamp, nullable=True)
    error = sa.Column(sa.Text, nullable=True)

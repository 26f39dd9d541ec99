# SPDX-License-Identifier: Apache-2.0

"""Clusters, their members, distributors, and the VIPs on these."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import lookup
from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0008'
down_revision = '0007'


def upgrade():
    operations.create_table(
        'hmsync_cluster',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('cluster_name', sa.String(255), nullable=False),
        sa.Column('desired_size', sa.Integer, nullable=False),
        sa.Column('min_size', sa.Integer, nullable=False),
        sa.Column('cooldown', sa.Integer, nullable=False),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('distributor', sa.String(64), nullable=False),
        sa.Column('provisioning_status', sa.String(16), nullable=False),
        sa.Column('operating_status', sa.String(16), nullable=False),
        sa.Column('enabled', sa.Boolean, nullable=False),
        sa.Column('cluster_type', sa.String(36), nullable=False),
        sa.Column('affinity', sa.String(36), nullable=False),
        sa.Column('peer_group_size', sa.Integer, nullable=False),
        sa.Column('standby', sa.Integer, nullable=False),
        sa.Column('version', sa.Integer, nullable=False),
        sa.Column('claimed_by', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('updated_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('load_balancer_id',
                            name='uq_hmsync_cluster_load_balancer'))
    operations.create_indexes(
        'hmsync_cluster', ix_hmsync_cluster_claim=['claim_expires_at'])
    operations.create_table(
        'hmsync_cluster_member',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('cluster_id', sa.String(36), nullable=False),
        sa.Column('amphora_id', sa.String(36), nullable=True),
        sa.Column('slot', sa.Integer, nullable=True),
        sa.Column('peer_group', sa.Integer, nullable=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('health', sa.String(36), nullable=True),
        sa.Column('config_digest', sa.String(64), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('updated_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('cluster_id', 'slot',
                            name='uq_hmsync_cluster_member_slot'),
        sa.UniqueConstraint('amphora_id',
                            name='uq_hmsync_cluster_member_amphora'))
    operations.create_indexes(
        'hmsync_cluster_member', ix_hmsync_cluster_member_state=['state'])
    operations.create_table(
        'hmsync_distributor',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('url', sa.String(255), nullable=False),
        sa.Column('driver', sa.String(64), nullable=False),
        sa.Column('enabled', sa.Boolean, nullable=False),
        sa.Column('status', sa.String(36), nullable=False),
        sa.Column('software_version', sa.String(64), nullable=True),
        sa.Column('last_seen', types.Timestamp, nullable=True),
        sa.UniqueConstraint('driver', 'name',
                            name='uq_hmsync_distributor_name'))
    operations.create_table(
        'hmsync_distributor_vip',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('cluster_id', sa.String(36), nullable=False),
        sa.Column('distributor_id', sa.String(36), nullable=False),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('mtu', sa.Integer, nullable=True),
        sa.Column('active', sa.Boolean, nullable=True),
        sa.Column('applied_version', sa.Integer, nullable=True),
        sa.Column('applied_active', sa.Boolean, nullable=True),
        sa.Column('applied_at', types.Timestamp, nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.UniqueConstraint('cluster_id', 'distributor_id',
                            name='uq_hmsync_distributor_vip_cluster'),
        sa.UniqueConstraint('cluster_id', 'active',
                            name='uq_hmsync_distributor_vip_active'))
    operations.create_indexes(
        'hmsync_distributor_vip',
        ix_hmsync_distributor_vip_distributor=['distributor_id'])
    lookup.add(op.get_bind())

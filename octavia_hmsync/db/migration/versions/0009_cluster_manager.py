# SPDX-License-Identifier: Apache-2.0

"""What a manager of clusters goes by: sights, orders, zones, and sizes."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0009'
down_revision = '0008'


def upgrade():
    operations.add_columns(
        'hmsync_cluster',
        sa.Column('resized_at', types.Timestamp, nullable=True))
    operations.add_columns(
        'hmsync_cluster_member',
        sa.Column('ordered', sa.String(36), nullable=True),
        sa.Column('zone', sa.String(255), nullable=True),
        sa.Column('connections', sa.Integer, nullable=True))
    operations.create_table(
        'hmsync_member_sight',
        sa.Column('member_id', sa.String(36), primary_key=True),
        sa.Column('distributor_id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('changed_at', types.Timestamp, nullable=False),
        sa.Column('error', sa.Text, nullable=True))
    operations.create_indexes(
        'hmsync_member_sight',
        ix_hmsync_member_sight_distributor=['distributor_id'])

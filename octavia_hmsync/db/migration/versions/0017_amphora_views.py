# SPDX-License-Identifier: Apache-2.0

"""What amphorae say in their heartbeats while one of them is replaced."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0017'
down_revision = '0016'


def upgrade():
    operations.create_table(
        'hmsync_amphora_view',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('amphora_id', sa.String(36), nullable=False),
        sa.Column('seen_at', types.Timestamp, nullable=False),
        sa.Column('listeners', types.LongText, nullable=False),
        sa.Column('members', types.LongText, nullable=False))
    operations.create_indexes(
        'hmsync_amphora_view',
        ix_hmsync_amphora_view_load_balancer=['load_balancer_id', 'seen_at'],
        ix_hmsync_amphora_view_seen=['seen_at'])

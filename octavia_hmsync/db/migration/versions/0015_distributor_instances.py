# SPDX-License-Identifier: Apache-2.0

"""Distributors that controllers boot."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0015'
down_revision = '0014'


def upgrade():
    operations.create_table(
        'hmsync_distributor_instance',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('compute_id', sa.String(255), nullable=True),
        sa.Column('address', sa.String(64), nullable=True),
        sa.Column('booted_at', types.Timestamp, nullable=True),
        sa.Column('expires_at', types.Timestamp, nullable=True),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('claimed_by', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False))

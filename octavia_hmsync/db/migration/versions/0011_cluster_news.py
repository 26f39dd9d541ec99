# SPDX-License-Identifier: Apache-2.0

"""What operators want of distributors, and what is told of clusters."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0011'
down_revision = '0010'


def upgrade():
    operations.add_columns(
        'hmsync_distributor', sa.Column('drained', sa.Boolean, nullable=True))
    operations.create_table(
        'hmsync_cluster_news',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
        sa.Column('kind', sa.String(36), nullable=False),
        sa.Column('body', sa.Text, nullable=False),
        sa.Column('created_at', types.Timestamp, nullable=False))

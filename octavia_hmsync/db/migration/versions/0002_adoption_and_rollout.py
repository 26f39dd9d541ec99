# SPDX-License-Identifier: Apache-2.0

"""Adoption, canaries and roll back."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0002'
down_revision = '0001'


def upgrade():
    operations.add_columns(
        'hmsync_health_manager',
        sa.Column('is_observing', sa.Boolean, nullable=False,
                  server_default=sa.false()),
        sa.Column('heard_at', types.Timestamp, nullable=True))
    # What an older release published went to every amphora.
    operations.add_columns(
        'hmsync_generation',
        sa.Column('status', sa.String(36), nullable=False,
                  server_default='OPEN'),
        sa.Column('wave', sa.Integer, nullable=False, server_default='0'),
        sa.Column('suspect_ip_port_list', sa.Text, nullable=True),
        sa.Column('rolled_back_at', types.Timestamp, nullable=True))
    operations.add_columns(
        'hmsync_amphora',
        sa.Column('previous_ip_port_lists', sa.Text, nullable=True),
        sa.Column('adopted_at', types.Timestamp, nullable=True),
        sa.Column('adopted_via', sa.String(80), nullable=True),
        sa.Column('has_changed_list', sa.Boolean, nullable=False,
                  server_default=sa.false()),
        sa.Column('admitted_generation', sa.Integer, nullable=True))
    op.create_table(
        'hmsync_heartbeat',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('address', sa.String(80), primary_key=True),
        sa.Column('heard_at', types.Timestamp, nullable=False),
        mysql_engine='InnoDB', if_not_exists=True)

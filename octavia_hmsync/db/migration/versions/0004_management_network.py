# SPDX-License-Identifier: Apache-2.0

"""The management network."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import types

revision = '0004'
down_revision = '0003'


def upgrade():
    op.create_table(
        'hmsync_network',
        sa.Column('name', sa.String(255), primary_key=True),
        sa.Column('network_id', sa.String(36), nullable=True),
        sa.Column('subnet_id', sa.String(36), nullable=True),
        sa.Column('amphora_security_group_id', sa.String(36), nullable=True),
        sa.Column('health_manager_security_group_id', sa.String(36),
                  nullable=True),
        sa.Column('ensured_at', types.Timestamp, nullable=True),
        sa.Column('repairs', sa.Integer, nullable=False),
        sa.Column('reconciled_at', types.Timestamp, nullable=True),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        mysql_engine='InnoDB', if_not_exists=True)

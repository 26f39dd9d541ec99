# SPDX-License-Identifier: Apache-2.0

"""The ports of nodes in the management network."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import types

revision = '0005'
down_revision = '0004'


def upgrade():
    op.create_table(
        'hmsync_port',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('ip_addresses', sa.Text, nullable=True),
        sa.Column('binding_host', sa.String(255), nullable=True),
        sa.Column('registered_at', types.Timestamp, nullable=True),
        sa.Column('plugged_at', types.Timestamp, nullable=True),
        sa.Column('repairs', sa.Integer, nullable=False),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        mysql_engine='InnoDB', if_not_exists=True)

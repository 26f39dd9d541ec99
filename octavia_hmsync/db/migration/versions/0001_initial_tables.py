# SPDX-License-Identifier: Apache-2.0

"""Initial tables."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import types

revision = '0001'
down_revision = None


def upgrade():
    # MySQL has no transactional DDL: an upgrade that was killed left some.
    op.create_table(
        'hmsync_health_manager',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('ip_address', sa.String(64), nullable=False),
        sa.Column('port', sa.Integer, nullable=False),
        sa.Column('status', sa.String(36), nullable=False),
        sa.Column('instance', sa.String(36), nullable=False),
        sa.Column('key_digest', sa.String(64), nullable=True),
        sa.Column('online_since', types.Timestamp, nullable=False),
        sa.Column('keepalive_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('ip_address', 'port',
                            name='uq_hmsync_health_manager_address'),
        mysql_engine='InnoDB', if_not_exists=True)
    op.create_table(
        'hmsync_house_keeper',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('pinned_ip_port_list', sa.Text, nullable=False),
        sa.Column('keepalive_at', types.Timestamp, nullable=False),
        mysql_engine='InnoDB', if_not_exists=True)
    op.create_table(
        'hmsync_generation',
        sa.Column('number', sa.Integer, primary_key=True,
                  autoincrement=False),
        sa.Column('controller_ip_port_list', sa.Text, nullable=False),
        sa.Column('slots', sa.Text, nullable=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('published_by', sa.String(255), nullable=False),
        sa.Column('published_at', types.Timestamp, nullable=False),
        sa.Column('completed_at', types.Timestamp, nullable=True),
        mysql_engine='InnoDB', if_not_exists=True)
    op.create_table(
        'hmsync_amphora',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('generation', sa.Integer, nullable=True),
        sa.Column('controller_ip_port_list', sa.Text, nullable=True),
        sa.Column('applied_at', types.Timestamp, nullable=True),
        sa.Column('attempted_generation', sa.Integer, nullable=True),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('result', sa.String(36), nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('next_attempt_at', types.Timestamp, nullable=True),
        sa.Column('held_since', types.Timestamp, nullable=True),
        sa.Column('held_at', types.Timestamp, nullable=True),
        sa.Column('claim_owner', sa.String(36), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        mysql_engine='InnoDB', if_not_exists=True)
    op.create_index('ix_hmsync_amphora_generation', 'hmsync_amphora',
                    ['generation'], if_not_exists=True)
    op.create_index('ix_hmsync_amphora_claim_owner', 'hmsync_amphora',
                    ['claim_owner'], if_not_exists=True)

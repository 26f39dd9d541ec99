# SPDX-License-Identifier: Apache-2.0

"""Who listens with which key, who reaches whom, and which lists are in use."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0006'
down_revision = '0005'


def upgrade():
    operations.add_columns(
        'hmsync_health_manager',
        sa.Column('configured_key_digest', sa.String(64), nullable=True))
    operations.add_columns(
        'hmsync_house_keeper',
        sa.Column('key_digest', sa.String(64), nullable=True))
    operations.add_columns(
        'hmsync_generation',
        sa.Column('key_digest', sa.String(64), nullable=True))
    operations.add_columns(
        'hmsync_amphora',
        sa.Column('key_digest', sa.String(64), nullable=True),
        sa.Column('previous_key_digest', sa.String(64), nullable=True),
        sa.Column('fell_silent_at', types.Timestamp, nullable=True))
    operations.create_table(
        'hmsync_left_address',
        sa.Column('address', sa.String(80), primary_key=True),
        sa.Column('left_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_turn', sa.Column('name', sa.String(64), primary_key=True))
    operations.create_table(
        'hmsync_previous_list',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('number', sa.Integer, primary_key=True,
                  autoincrement=False),
        sa.Column('controller_ip_port_list', sa.Text, nullable=True),
        sa.Column('before_generation', sa.Integer, nullable=True))
    operations.create_table(
        'hmsync_uploader',
        sa.Column('name', sa.String(320), primary_key=True),
        sa.Column('reached_at', types.Timestamp, nullable=True),
        sa.Column('failing_since', types.Timestamp, nullable=True),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('overtaken', sa.Integer, nullable=False),
        sa.Column('keepalive_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_attempt',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('uploader', sa.String(320), primary_key=True),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('is_unanswered', sa.Boolean, nullable=False),
        sa.Column('first_tried_at', types.Timestamp, nullable=False),
        sa.Column('next_attempt_at', types.Timestamp, nullable=False))
    operations.create_indexes(
        'hmsync_attempt',
        ix_hmsync_attempt_next=['uploader', 'next_attempt_at'])
    operations.create_indexes(
        'hmsync_generation',
        ix_hmsync_generation_published_at=['published_at'],
        ix_hmsync_generation_rolled_back_at=['rolled_back_at'])
    operations.create_indexes(
        'hmsync_amphora',
        ix_hmsync_amphora_next_attempt=['next_attempt_at', 'generation'],
        ix_hmsync_amphora_adopted=['adopted_at', 'applied_at'],
        ix_hmsync_amphora_applied_at=['applied_at'],
        ix_hmsync_amphora_held_since=['held_since'],
        ix_hmsync_amphora_admitted=['admitted_generation'])

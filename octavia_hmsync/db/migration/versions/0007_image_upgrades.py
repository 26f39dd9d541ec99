# SPDX-License-Identifier: Apache-2.0

"""Rollouts of images, replacements of amphorae, and who is left alone."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0007'
down_revision = '0006'


def upgrade():
    operations.add_columns(
        'hmsync_house_keeper',
        sa.Column('replacer_at', types.Timestamp, nullable=True))
    operations.create_table(
        'hmsync_image_rollout',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('active_key', sa.String(36), nullable=True),
        sa.Column('version', sa.Integer, nullable=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('mode', sa.String(36), nullable=False),
        sa.Column('canaries', sa.Integer, nullable=False),
        sa.Column('parallel', sa.Integer, nullable=False),
        sa.Column('parallel_per_az', sa.Integer, nullable=False),
        sa.Column('rate_per_hour', sa.Integer, nullable=False),
        sa.Column('max_failures', sa.Integer, nullable=False),
        sa.Column('windows', sa.Text, nullable=False),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('updated_at', types.Timestamp, nullable=False),
        sa.Column('finished_at', types.Timestamp, nullable=True),
        sa.Column('announced', sa.String(36), nullable=True),
        sa.UniqueConstraint('active_key',
                            name='uq_hmsync_image_rollout_active'))
    operations.create_table(
        'hmsync_image_replacement',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('rollout_id', sa.String(36), nullable=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('active_key', sa.String(36), nullable=True),
        sa.Column('topology', sa.String(36), nullable=True),
        sa.Column('flavor_id', sa.String(36), nullable=True),
        sa.Column('availability_zone', sa.String(255), nullable=True),
        sa.Column('target_image_id', sa.String(36), nullable=True),
        sa.Column('mode', sa.String(36), nullable=False),
        sa.Column('canary', sa.Boolean, nullable=False),
        sa.Column('forced', sa.Boolean, nullable=False),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('phase', sa.String(36), nullable=True),
        sa.Column('old_amphora_id', sa.String(36), nullable=True),
        sa.Column('new_amphora_id', sa.String(36), nullable=True),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('not_before', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('started_at', types.Timestamp, nullable=True),
        sa.Column('finished_at', types.Timestamp, nullable=True),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.Column('announced', sa.String(36), nullable=True),
        sa.UniqueConstraint('active_key',
                            name='uq_hmsync_image_replacement_active'))
    operations.create_indexes(
        'hmsync_image_replacement',
        ix_hmsync_image_replacement_rollout=['rollout_id', 'state'],
        ix_hmsync_image_replacement_started=['started_at'],
        ix_hmsync_image_replacement_load_balancer=['load_balancer_id'],
        ix_hmsync_image_replacement_state=['state', 'claim_expires_at'],
        ix_hmsync_image_replacement_claim_owner=['claim_owner'],
        ix_hmsync_image_replacement_finished=['finished_at'],
        ix_hmsync_image_replacement_attempts=['state', 'attempts'])
    operations.create_table(
        'hmsync_image_exclusion',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('kind', sa.String(36), nullable=False),
        sa.Column('value', sa.String(255), nullable=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('kind', 'value',
                            name='uq_hmsync_image_exclusion_value'))

# SPDX-License-Identifier: Apache-2.0

"""Rollouts that watch and are undone, replacements that are cancelled."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0016'
down_revision = '0015'


def upgrade():
    operations.add_columns(
        'hmsync_image_rollout',
        sa.Column('watch_time', sa.Integer, nullable=True),
        sa.Column('undo_of', sa.String(36), nullable=True))
    operations.add_columns(
        'hmsync_image_replacement',
        sa.Column('cancel_requested', sa.Text, nullable=True),
        sa.Column('operating_status', sa.String(36), nullable=True))

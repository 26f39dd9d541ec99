# SPDX-License-Identifier: Apache-2.0

"""Zones of health managers, and of the addresses of lists."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0013'
down_revision = '0012'


def upgrade():
    operations.add_columns(
        'hmsync_health_manager',
        sa.Column('zone', sa.String(255), nullable=True))
    operations.add_columns(
        'hmsync_generation',
        sa.Column('zones', sa.Text, nullable=True))

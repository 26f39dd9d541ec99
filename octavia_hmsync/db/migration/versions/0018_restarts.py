# SPDX-License-Identifier: Apache-2.0

"""Health managers that start say so, and how long that took."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0018'
down_revision = '0017'


def upgrade():
    operations.add_columns(
        'hmsync_health_manager',
        sa.Column('starting_at', types.Timestamp, nullable=True),
        sa.Column('restart_took', sa.Float, nullable=True))

# SPDX-License-Identifier: Apache-2.0

"""When VIPs moved, and for how long they stay; when certificates end."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0019'
down_revision = '0018'


def upgrade():
    operations.add_columns(
        'hmsync_cluster',
        sa.Column('vip_moved_at', types.Timestamp, nullable=True),
        sa.Column('vip_hold', sa.Integer, nullable=True))
    operations.add_columns(
        'hmsync_distributor',
        sa.Column('certificate_expires_at', types.Timestamp, nullable=True))

# SPDX-License-Identifier: Apache-2.0

"""Operation: versions, notifications, pauses."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0003'
down_revision = '0002'


def upgrade():
    operations.add_columns(
        'hmsync_health_manager',
        sa.Column('plugin_version', sa.String(64), nullable=True),
        sa.Column('announced', sa.String(160), nullable=True))
    operations.add_columns(
        'hmsync_amphora',
        sa.Column('not_adopted_at', types.Timestamp, nullable=True))
    op.create_table(
        'hmsync_pause',
        sa.Column('number', sa.Integer, primary_key=True,
                  autoincrement=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('begun_at', types.Timestamp, nullable=False),
        sa.Column('ends_at', types.Timestamp, nullable=False),
        mysql_engine='InnoDB', if_not_exists=True)

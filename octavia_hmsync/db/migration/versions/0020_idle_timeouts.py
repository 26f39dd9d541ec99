# SPDX-License-Identifier: Apache-2.0

"""For how long connections of a member may be silent."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0020'
down_revision = '0019'


def upgrade():
    operations.add_columns(
        'hmsync_cluster_member',
        sa.Column('idle_timeout', sa.Integer, nullable=True))

# SPDX-License-Identifier: Apache-2.0

"""What a cluster is being brought to, beside what is wanted."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0010'
down_revision = '0009'


def upgrade():
    operations.add_columns(
        'hmsync_cluster', sa.Column('size', sa.Integer, nullable=True))
    operations.create_indexes(
        'hmsync_member_sight', ix_hmsync_member_sight_state=['state'])

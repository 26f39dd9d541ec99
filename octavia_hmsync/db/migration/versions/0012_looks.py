# SPDX-License-Identifier: Apache-2.0

"""What distributors need to know to look at members."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0012'
down_revision = '0011'


def upgrade():
    operations.add_columns(
        'hmsync_cluster', sa.Column('ports', sa.Text, nullable=True))
    operations.add_columns(
        'hmsync_distributor_vip',
        sa.Column('addresses', sa.Text, nullable=True))

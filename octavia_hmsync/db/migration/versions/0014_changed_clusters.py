# SPDX-License-Identifier: Apache-2.0

"""Which clusters changed lately, without a look at all of them."""

from octavia_hmsync.db.migration import operations

revision = '0014'
down_revision = '0013'


def upgrade():
    operations.create_indexes(
        'hmsync_cluster', ix_hmsync_cluster_updated=['updated_at'])

#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What amphorae say in their heartbeats while one of them is replaced."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0017'
down_revision = '0016'


def upgrade():
    operations.create_table(
        'hmsync_amphora_view',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('amphora_id', sa.String(36), nullable=False),
        sa.Column('seen_at', types.Timestamp, nullable=False),
        sa.Column('listeners', types.LongText, nullable=False),
        sa.Column('members', types.LongText, nullable=False))
    operations.create_indexes(
        'hmsync_amphora_view',
        ix_hmsync_amphora_view_load_balancer=['load_balancer_id', 'seen_at'],
        ix_hmsync_amphora_view_seen=['seen_at'])

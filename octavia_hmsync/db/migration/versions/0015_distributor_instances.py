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

"""Distributors that controllers boot."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0015'
down_revision = '0014'


def upgrade():
    operations.create_table(
        'hmsync_distributor_instance',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('compute_id', sa.String(255), nullable=True),
        sa.Column('address', sa.String(64), nullable=True),
        sa.Column('booted_at', types.Timestamp, nullable=True),
        sa.Column('expires_at', types.Timestamp, nullable=True),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('claimed_by', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False))

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

"""The management network."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import types

revision = '0004'
down_revision = '0003'


def upgrade():
    op.create_table(
        'hmsync_network',
        sa.Column('name', sa.String(255), primary_key=True),
        sa.Column('network_id', sa.String(36), nullable=True),
        sa.Column('subnet_id', sa.String(36), nullable=True),
        sa.Column('amphora_security_group_id', sa.String(36), nullable=True),
        sa.Column('health_manager_security_group_id', sa.String(36),
                  nullable=True),
        sa.Column('ensured_at', types.Timestamp, nullable=True),
        sa.Column('repairs', sa.Integer, nullable=False),
        sa.Column('reconciled_at', types.Timestamp, nullable=True),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        mysql_engine='InnoDB', if_not_exists=True)

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

"""The ports of nodes in the management network."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import types

revision = '0005'
down_revision = '0004'


def upgrade():
    op.create_table(
        'hmsync_port',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('ip_addresses', sa.Text, nullable=True),
        sa.Column('binding_host', sa.String(255), nullable=True),
        sa.Column('registered_at', types.Timestamp, nullable=True),
        sa.Column('plugged_at', types.Timestamp, nullable=True),
        sa.Column('repairs', sa.Integer, nullable=False),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        mysql_engine='InnoDB', if_not_exists=True)

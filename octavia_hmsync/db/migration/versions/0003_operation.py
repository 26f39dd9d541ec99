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

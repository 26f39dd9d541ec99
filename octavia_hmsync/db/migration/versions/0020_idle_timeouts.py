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

"""For how long connections of a member may be silent."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0020'
down_revision = '0019'


def upgrade():
    operations.add_columns(
        'hmsync_cluster_member',
        sa.Column('idle_timeout', sa.Integer, nullable=True))

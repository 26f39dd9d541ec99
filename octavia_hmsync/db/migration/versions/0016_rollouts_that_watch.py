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

"""Rollouts that watch and are undone, replacements that are cancelled."""

import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0016'
down_revision = '0015'


def upgrade():
    operations.add_columns(
        'hmsync_image_rollout',
        sa.Column('watch_time', sa.Integer, nullable=True),
        sa.Column('undo_of', sa.String(36), nullable=True))
    operations.add_columns(
        'hmsync_image_replacement',
        sa.Column('cancel_requested', sa.Text, nullable=True),
        sa.Column('operating_status', sa.String(36), nullable=True))

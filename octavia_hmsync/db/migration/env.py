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

"""Alembic environment: run by octavia_hmsync.db.schema only."""

from alembic import context

from octavia_hmsync.db import models
from octavia_hmsync.db import schema


def _run_migrations():
    connection = context.config.attributes['connection']
    if connection is None:
        raise SystemExit('Use "octavia-hmsync db upgrade".')
    context.configure(connection=connection,
                      target_metadata=models.Base.metadata,
                      version_table=schema.VERSION_TABLE,
                      render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


_run_migrations()

# SPDX-License-Identifier: Apache-2.0

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

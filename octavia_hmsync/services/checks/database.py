# SPDX-License-Identifier: Apache-2.0

"""Checks of Octavia, its database, and the plugin's tables there."""

import importlib.util

import sqlalchemy as sa

from octavia_hmsync.cli import symbols
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from octavia_hmsync.services.checks import result


def check_database(_conf, engine):
    """Whether the database can be used, and is Octavia's."""
    try:
        with engine.connect() as connection:
            schema.check_octavia(connection)
    except exceptions.NotOctavia as e:
        return result.failure(str(e))
    except Exception as e:
        if not api.is_database_error(e):
            raise
        return result.failure(api.explain(e))
    return result.success()


def check_octavia(_conf, engine):
    """Whether Octavia still has what compat uses of it."""
    try:
        symbols.check()
    except exceptions.HMSyncException as e:
        return result.failure(str(e))
    missing = [name for name in compat.SERVICE_MODULES
               if importlib.util.find_spec(name) is None]
    inspector = sa.inspect(engine)
    for table in (*compat.TABLES, *compat.IMAGE_TABLES,
                  *compat.LOOKUP_TABLES, *compat.ZONE_TABLES):
        known = _get_columns(inspector, table.name)
        missing += [f'{table.name}.{column.name}' for column in table.c
                    if column.name not in known]
    if missing:
        return result.failure(
            f'This Octavia, or its database, has no {", ".join(missing)}: '
            f'run octavia-db-manage upgrade head, or install a release of '
            f'octavia-hmsync for this Octavia.')
    return result.success()


def _get_columns(inspector, name):
    try:
        return {column['name'] for column in inspector.get_columns(name)}
    except sa.exc.NoSuchTableError:
        return set()


def check_tables(_conf, engine):
    """Whether the plugin's tables have the schema of this release."""
    with engine.connect() as connection:
        try:
            schema.check(connection)
        except exceptions.SchemaNewer as e:
            return result.warning(str(e))
        except exceptions.SchemaMissing as e:
            return result.failure(str(e))
    return result.success()

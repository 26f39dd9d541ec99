# SPDX-License-Identifier: Apache-2.0

"""What alembic alone can do with the migrations.

Services do not import it: on a busy host its import puts off by seconds that a
health manager listens.
"""

from alembic import command
from alembic import config as alembic_config
from alembic import script
from alembic import util as alembic_util

from octavia_hmsync import exceptions


def make_config(path, connection=None):
    """Return what alembic's commands take.

    :param path: the directory of the migrations.
    :param connection: an SQLAlchemy connection, for those that need one.
    """
    config = alembic_config.Config()
    config.set_main_option('script_location', str(path))
    config.attributes['connection'] = connection
    return config


def get_history(path):
    """Return all revisions, oldest first.

    :param path: the directory of the migrations.
    :returns: a list of (revision, description).
    """
    scripts = script.ScriptDirectory.from_config(make_config(path))
    return [(r.revision, r.doc) for r in
            reversed(list(scripts.walk_revisions()))]


def upgrade(path, connection):
    """Run the migrations that were not run yet.

    :param path: the directory of the migrations.
    :param connection: an SQLAlchemy connection.
    :raises HMSyncException: if alembic cannot.
    """
    try:
        command.upgrade(make_config(path, connection), 'head')
    except alembic_util.CommandError as e:
        raise exceptions.HMSyncException(
            f'The upgrade of the tables failed: {e}') from e

# SPDX-License-Identifier: Apache-2.0

"""All that needs alembic.

Services do not import this module: on a busy host the import of alembic delays
a health manager by seconds.
"""

from alembic import command
from alembic import config as alembic_config
from alembic import script
from alembic import util as alembic_util

from octavia_hmsync import exceptions


def make_config(path, connection=None):
    """Return alembic's configuration for the migrations in a directory."""
    config = alembic_config.Config()
    config.set_main_option('script_location', str(path))
    config.attributes['connection'] = connection
    return config


def get_history(path):
    """Return (revision, description) of all revisions, oldest first."""
    scripts = script.ScriptDirectory.from_config(make_config(path))
    return [(r.revision, r.doc) for r in
            reversed(list(scripts.walk_revisions()))]


def upgrade(path, connection):
    """Run the missing migrations; raise HMSyncException if alembic fails."""
    try:
        command.upgrade(make_config(path, connection), 'head')
    except alembic_util.CommandError as e:
        raise exceptions.HMSyncException(
            f'The upgrade of the tables failed: {e}') from e

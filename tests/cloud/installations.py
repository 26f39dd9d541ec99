# SPDX-License-Identifier: Apache-2.0

"""Octavia and the plugin, also in releases other than those under test."""

from importlib import metadata
import json
import os
import pathlib
import shutil
import sys

import fixtures

from tests.cloud import process

TOP = pathlib.Path(__file__).resolve().parents[2]


class Installation:
    """Where the programs and the modules of a controller come from.

    :param bin_directory: that of a virtual environment
    :param tree: source of the plugin, to be imported instead of what that
                 environment has
    """

    def __init__(self, bin_directory, tree=None):
        self.bin_directory = pathlib.Path(bin_directory)
        self.tree = tree

    def program(self, name):
        return str(self.bin_directory / name)

    def environment(self, home, **variables):
        env = process.environment(home, **variables)
        if self.tree:
            env['PYTHONPATH'] = os.pathsep.join(
                [str(self.tree), env['PYTHONPATH']])
        return env


OURS = Installation(os.path.dirname(sys.executable))


def octavia_release(site_packages=None):
    """The number of an Octavia release, such as 19; None if there is none."""
    path = [str(site_packages)] if site_packages else sys.path
    for distribution in metadata.distributions(name='octavia', path=path):
        return int(distribution.version.partition('.')[0])
    return None


def with_other_octavia():
    """Find an environment of tox with this plugin and another Octavia.

    Of several that with the release farthest from ours.

    :returns: an Installation, or None
    """
    found = [
        (release, site.parents[2] / 'bin')
        for site in (TOP / '.tox').glob('*/lib/python3*/site-packages')
        if (release := octavia_release(site)) and _has_tree(site)]
    ours = octavia_release()
    release, directory = max(
        found, default=(ours, None), key=lambda item: abs(item[0] - ours))
    return None if release == ours else Installation(directory)


def _has_tree(site_packages):
    """Whether the plugin there is this tree, as pip or tox installs it."""
    for found in metadata.distributions(name='octavia-hmsync',
                                        path=[str(site_packages)]):
        url = json.loads(found.read_text('direct_url.json') or '{}')
        # tox installs an editable wheel that it has made below the tree.
        if f"{url.get('url')}/".startswith(f'{TOP.as_uri()}/'):
            return True
    return False


def write_next_migration(directory):
    """Write what migrations of a newer release of the plugin would have more.

    :param directory: with a copy of octavia_hmsync/db/migration
    """
    (pathlib.Path(directory) / 'versions' / '0002_next.py').write_text(_NEXT)


# One of each kind that migration/operations.py knows.
_NEXT = """
'''The next one.'''

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db.migration import operations

revision = '0002'
down_revision = '0001'


def upgrade():
    operations.add_columns(
        'hmsync_house_keeper', sa.Column('mood', sa.Text, nullable=True),
        sa.Column('hands', sa.Integer, nullable=False, server_default='2'))
    operations.create_table(
        'hmsync_next', sa.Column('name', sa.String(36), primary_key=True))
    operations.create_indexes(
        'hmsync_house_keeper', ix_hmsync_house_keeper_hands=['hands'])
"""


class NextPlugin(fixtures.Fixture):
    """A newer release of the plugin: this one, with a migration more."""

    def _setUp(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        shutil.copytree(TOP / 'octavia_hmsync', directory / 'octavia_hmsync')
        write_next_migration(directory / 'octavia_hmsync/db/migration')
        self.installation = Installation(OURS.bin_directory, directory)

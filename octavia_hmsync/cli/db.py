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

"""octavia-hmsync db upgrade|current|history."""

from cliff import command
from cliff import lister

from octavia_hmsync.cli import base
from octavia_hmsync.db import schema


class Upgrade(base.DatabaseMixin, command.Command):
    """Create the plugin's tables, or bring them to this release.

    They lie in Octavia's database, beside its own, with a version table of
    their own. Running it again changes nothing.
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database(check_schema=False)
        before, after = schema.upgrade(engine)
        if before == after:
            text = f'The tables are at revision {after} already.'
        else:
            text = (f'The tables are now at revision {after} '
                    f'(before: {before or "none"}).')
        self.app.stdout.write(f'{text}\n')


class Current(base.DatabaseMixin, base.ShowOne):
    """Show the revision of the plugin's tables."""

    def take_action(self, parsed_args):
        _conf, engine = self.open_database(check_schema=False)
        with engine.connect() as connection:
            revision = schema.current(connection)
        return (('revision', 'newest'), (revision, schema.head()))


class History(lister.Lister):
    """List the revisions that this release knows, oldest first."""

    def take_action(self, parsed_args):
        return (('revision', 'description'), schema.history())

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

"""octavia-hmsync upgrade check."""

import traceback

from cliff import command
from oslo_upgradecheck import upgradecheck

from octavia_hmsync.cli import base
from octavia_hmsync.cli import checks


class Check(base.DatabaseMixin, command.Command):
    """Check what keeps the plugin from working as it should.

    Looks at this host's octavia.conf and at the database. To be run on each
    controller after an installation or an upgrade, and before. The exit code
    is 0 if all is well, 1 if something should be looked at, and 2 if the
    plugin cannot work.
    """

    def run(self, parsed_args):
        """Run the checks; what keeps them from it is a failure, too."""
        try:
            return super().run(parsed_args)
        except BrokenPipeError:
            raise
        except Exception as e:
            if self.app.options.debug:
                traceback.print_exc(file=self.app.stderr)
            self.app.stderr.write(f'{e}\n')
            return int(upgradecheck.Code.FAILURE)

    def take_action(self, parsed_args):
        conf, engine = self.open_database(check_schema=False)
        return int(checks.Checks(conf, engine).check_all())

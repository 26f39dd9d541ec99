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

"""The administrator's command line."""

import sys

from cliff import app
from cliff import commandmanager

from octavia_hmsync.cli import base
from octavia_hmsync import version

_CONF_OPTIONS = ('--config-file', '--config-dir')


def split_config_args(argv):
    """Take ``--config-file`` and ``--config-dir`` out of the arguments.

    They may stand anywhere, as with Octavia's own commands.

    :param argv: the arguments without the program's name.
    :returns: (arguments for oslo.config, all others).
    """
    config_args, others = [], []
    argv = iter(argv)
    for arg in argv:
        if arg in _CONF_OPTIONS:
            config_args += [arg, *(value for value in [next(argv, None)]
                                   if value is not None)]
        elif arg.startswith(tuple(f'{o}=' for o in _CONF_OPTIONS)):
            config_args.append(arg)
        else:
            others.append(arg)
    return config_args, others


class HMSyncApp(app.App):
    """Shows and manages what octavia-hmsync keeps.

    :param config_args: arguments for oslo.config.
    """

    def __init__(self, config_args=()):
        super().__init__(
            description='Manage the synchronization of health manager '
                        'addresses to amphorae. --config-file FILE and '
                        '--config-dir DIR name octavia.conf where it does '
                        'not lie in its usual place.',
            version=version.version_string(),
            command_manager=commandmanager.CommandManager(
                'octavia_hmsync.cli'),
            deferred_help=True)
        self.config_args = list(config_args)

    def configure_logging(self):
        super().configure_logging()
        base.quiet_libraries(self.options.debug)


def main(argv=None):
    """Run one command.

    :param argv: the arguments, those of the process by default.
    :returns: the exit code: 0, 1 if the command failed, 2 if its arguments
              are wrong.
    """
    config_args, others = split_config_args(
        sys.argv[1:] if argv is None else argv)
    return HMSyncApp(config_args).run(others)


if __name__ == '__main__':
    sys.exit(main())

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

import logging
import os
import sys
import warnings

from cliff import app
from cliff import commandmanager

from octavia_hmsync.cli import symbols
from octavia_hmsync import exceptions
from octavia_hmsync import version

# As of a process that SIGINT or SIGPIPE ended; cliff has the same.
_INTERRUPTED = 130
_NOBODY_READS = 141
_CONF_OPTIONS = ('--config-file', '--config-dir')
# Their chatter does not belong into the output of a command.
_LIBRARIES = ('alembic', 'keystoneauth', 'openstack', 'oslo_config',
              'oslo_db', 'pyroute2', 'stevedore')
# It has a traceback for each connection that is lost when it is given back;
# where that matters, the command says so.
_POOL = 'sqlalchemy.pool'


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

    def run_subcommand(self, argv):
        """Run a command; that there is no such one is said on stderr."""
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            # cliff says it where a script expects the output of a command.
            self.stdout = self.stderr
        return super().run_subcommand(argv)

    def configure_logging(self):
        super().configure_logging()
        if not self.options.debug:
            for name in _LIBRARIES:
                logging.getLogger(name).setLevel(logging.ERROR)
            logging.getLogger(_POOL).setLevel(logging.CRITICAL)


def main(argv=None):
    """Run one command.

    :param argv: the arguments, those of the process by default.
    :returns: the exit code: 0, 1 if the command failed, 2 if its arguments
              are wrong; "upgrade check" has its own, see cli/upgrade.py.
    """
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        # Octavia takes seconds to load.
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return _NOBODY_READS
    except OSError as e:
        # Commands tell of their own errors: a disk is full, for example.
        sys.stderr.write(f'The output cannot be written: {e}\n')
        _drop_output()
        return 1


def _drop_output():
    # Python would complain of what is left to be written as it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(argv):
    config_args, others = split_config_args(
        sys.argv[1:] if argv is None else argv)
    with warnings.catch_warnings():
        if not sys.warnoptions:
            # What Octavia's libraries deprecate is not for operators.
            warnings.simplefilter('ignore')
        try:
            symbols.check()
        except exceptions.HMSyncException as e:
            # No command could even be loaded.
            sys.stderr.write(f'{e}\n')
            return 2 if others[:2] == ['upgrade', 'check'] else 1
    if not others:
        # cliff would ask for commands one after the other.
        HMSyncApp(config_args).run(['help'])
        return 2
    return HMSyncApp(config_args).run(others)


if __name__ == '__main__':
    sys.exit(main())

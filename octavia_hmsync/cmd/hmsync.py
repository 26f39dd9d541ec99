# SPDX-License-Identifier: Apache-2.0

"""The administrator's command line."""

import argparse
import ast
import functools
from importlib import metadata
from importlib import resources
import logging
import os
import sys
import warnings

try:
    from cliff import app
    from cliff import command
    from cliff import commandmanager
    from cliff import complete
except ModuleNotFoundError as e:
    # As on network nodes.
    sys.exit(f"octavia-hmsync needs {e.name}, which is not installed here: "
             f"run it in the environment of Octavia.")

from octavia_hmsync.cli import plain
from octavia_hmsync.cli import symbols
from octavia_hmsync import exceptions
from octavia_hmsync import version

# As of a process that SIGINT or SIGPIPE ended; cliff has the same.
_INTERRUPTED = 130
_NOBODY_READS = 141
_USAGE = 2
_CONF_OPTIONS = (
    ('--config-file', '<file>',
     'octavia.conf, where it does not lie in its usual place. Can be '
     'repeated: what is read later wins.'),
    ('--config-dir', '<dir>',
     'Directory of which each *.conf is read, in the order of their names. '
     'Can be repeated.'))
# Their chatter does not belong into the output of a command.
_LIBRARIES = ('alembic', 'keystoneauth', 'openstack', 'oslo_config',
              'oslo_db', 'oslo_service', 'pyroute2', 'stevedore')
# It has a traceback for each connection that is lost when it is given back;
# where that matters, the command says so.
_POOL = 'sqlalchemy.pool'
# That two images have a tag, as whenever there is a newer one, and tracebacks
# of errors that they raise as well.
_IMAGE_DRIVERS = ('octavia.image', 'octavia.common.clients')


def _add_conf_options(parser):
    """Let a parser take where octavia.conf lies, for oslo.config.

    All of it is in its config_args, in the order of the command line: what
    is read later wins.
    """
    for option, metavar, text in _CONF_OPTIONS:
        parser.add_argument(
            option, metavar=metavar, action='append', default=[],
            dest='config_args', help=text,
            type=functools.partial(_to_config_arg, option))


def _to_config_arg(option, value):
    if not value:
        # As of a variable of a shell that is not set.
        raise argparse.ArgumentTypeError('expected a name')
    return f'{option}={value}'


class _Described(command.Command):
    """A command of which nothing but its description is known."""

    def take_action(self, parsed_args):
        raise NotImplementedError()


class Complete(plain.Command, complete.CompleteCommand):
    """Print what bash needs to complete commands and their options."""

    def take_action(self, parsed_args):
        # A shell that starts waits for it, and asking each command for its
        # options imports all of them: tools/write_completion.py does that.
        if parsed_args.shell != 'bash' or parsed_args.name:
            return self.generate(parsed_args)
        self.app.stdout.write((resources.files('octavia_hmsync.cli') /
                               'complete.bash').read_text())
        return 0

    def generate(self, parsed_args):
        """Ask all commands."""
        return super().take_action(parsed_args)


class CommandManager(commandmanager.CommandManager):
    """Finds commands by name, and imports only the one that is run."""

    def load_commands(self, namespace):
        """Read the names; cliff's own imports the modules of all of them."""
        self.group_list.append(namespace)
        for point in metadata.entry_points(group=namespace):
            self.commands[point.name.replace('_', ' ')] = point

    def __iter__(self):
        """Return all commands, for help: it shows their first lines."""
        trees = {}
        for name, point in self.commands.items():
            if isinstance(point, metadata.EntryPoint):
                if point.module not in trees:
                    folder, _, file = point.module.rpartition('.')
                    trees[point.module] = ast.parse(
                        (resources.files(folder) / f'{file}.py').read_text())
                text = next(ast.get_docstring(node)
                            for node in trees[point.module].body
                            if isinstance(node, ast.ClassDef) and
                            node.name == point.attr)
                point = commandmanager.EntryPointWrapper(
                    name, type(point.attr, (_Described,), {
                        '__doc__': text, '__module__': __name__}))
            yield name, point


class HMSyncApp(app.App):
    """Shows and manages what octavia-hmsync keeps."""

    # The command's words and arguments.
    subcommand_argv: list[str] = []

    def __init__(self):
        super().__init__(
            description='Look after the amphorae of Octavia: "sync", "health '
                        'manager", "amphora" and "generation" are for the '
                        'list of health managers; "network" for the '
                        'management network; "image" for image upgrades; '
                        '"cluster" and "distributor" for clusters.',
            version=version.version_string(),
            command_manager=CommandManager('octavia_hmsync.cli'),
            deferred_help=True)
        self.command_manager.add_command('complete', Complete)

    def build_option_parser(self, description, version, argparse_kwargs=None):
        """Add where octavia.conf lies; that may stand anywhere."""
        # An abbreviated option of a command is none of the application's.
        parser = super().build_option_parser(
            description, version, {'allow_abbrev': False,
                                   **(argparse_kwargs or {})})
        _add_conf_options(parser)
        return parser

    @property
    def config_args(self):
        """Arguments for oslo.config."""
        return self.options.config_args

    def interact(self):
        """Show the commands; cliff would ask for one after the other."""
        self.run_subcommand(['help'])
        raise SystemExit(_USAGE)

    def run_subcommand(self, argv):
        """Run a command; that there is no such one is said on stderr."""
        self.subcommand_argv = argv
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
            for name in (_POOL, *_IMAGE_DRIVERS):
                logging.getLogger(name).setLevel(logging.CRITICAL)


def main(argv=None):
    """Run one command.

    :returns: the exit code: 0, 1 if the command failed, 2 if its arguments
              are wrong; "upgrade check" has its own, see cli/upgrade.py.
    """
    # What Octavia imports has a resolver for green threads, of which commands
    # have none; it takes a tenth of the time until they begin.
    os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
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
    parser = argparse.ArgumentParser(
        prog='octavia-hmsync', add_help=False, allow_abbrev=False)
    _add_conf_options(parser)
    _options, others = parser.parse_known_args(argv)
    with warnings.catch_warnings():
        if not sys.warnoptions:
            # What Octavia's libraries deprecate is not for operators.
            warnings.simplefilter('ignore')
        try:
            return HMSyncApp().run(argv)
        except (AttributeError, ImportError) as failure:
            # Perhaps the command could not even be imported.
            try:
                symbols.check()
            except exceptions.HMSyncException as e:
                sys.stderr.write(f'{e}\n')
                return _USAGE if others[:2] == ['upgrade', 'check'] else 1
            if not isinstance(failure, ModuleNotFoundError):
                raise
            sys.stderr.write(
                f'octavia-hmsync needs {failure.name}, which is not installed '
                f'here: install it.\n')
            return 1


if __name__ == '__main__':
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0

"""The phases of the devstack plugin, driven as stack.sh does."""

import functools
from importlib import metadata
import os
import pathlib
import stat
import subprocess
import sys
import textwrap
from unittest import mock

import fixtures
from oslo_config import cfg

from octavia_hmsync.cmd import hmsync
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.services import config_source
from tests.unit import base
from tests.unit import octavia_opts

TOP = pathlib.Path(__file__).resolve().parents[3]
HELPERS = TOP / 'tests/unit/devstack/devstack.sh'
PLUGIN = TOP / 'devstack/plugin.sh'
SETTINGS = TOP / 'devstack/settings'

OCTAVIA_SETTINGS = '''
OCTAVIA_CONF={conf}
OCTAVIA_NODE={node}
OCTAVIA_HEALTHMANAGER=o-hm
OCTAVIA_CONSUMER=o-cw
OCTAVIA_HOUSEKEEPER=o-hk
'''

# Records the command, then answers: it fails as often as a file says, and
# prints what another file holds.
COMMAND = '''\
#!/bin/sh
[ "$1" = --config-file ] && shift 2
echo "octavia-hmsync $*" >>"$DEST/calls"
name=$(echo "$*" | tr ' ' _)
cat "$DEST/answers/$name" 2>/dev/null
left=$(cat "$DEST/failures/$name" 2>/dev/null || echo 0)
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) >"$DEST/failures/$name"
exit "$(cat "$DEST/codes/$name" 2>/dev/null || echo 1)"
'''

# The cloud's: what is made has its kind and its name as its id.
OPENSTACK = '''\
#!/bin/bash
echo "openstack $*" >>"$DEST/calls"
kind=
until [[ $1 == show || $1 == list || $1 == create ]]; do
    kind+=${kind:+_}$1
    shift
done
made=$DEST/cloud/$kind-${*: -1}
if [[ $1 == create ]]; then
    [[ ! -e $DEST/failures/${kind}_create ]] || exit 1
    [[ "$*" != *soft-* || $OS_COMPUTE_API_VERSION == 2.15 ]] || exit 1
    [[ ! -e $made ]] || exit 1
    touch "$made"
fi
[[ $1 == list || -e $made ]] || exit 1
[[ ! -e $made ]] || basename "$made"
'''

DISK_IMAGE_CREATE = '''\
#!/bin/bash
echo "disk-image-create $*" >>"$DEST/calls"
env | grep -E '^(DIB_|ELEMENTS_PATH)' >"$DEST/built_with"
[[ ! -e $DEST/failures/disk-image-create ]] && touch "$2"
'''

REAL_COMMAND = '''\
#!/bin/sh
exec '{python}' -m octavia_hmsync.cmd.hmsync "$@"
'''


class Devstack(fixtures.Fixture):
    """A node with octavia.conf as Octavia's plugin writes it.

    :param conf_text: further lines that Octavia's plugin writes.
    :param node: OCTAVIA_NODE.
    :param services: ENABLED_SERVICES.
    """

    def __init__(self, conf_text='', node='standalone',
                 services='octavia,o-api,o-cw,o-hk,o-hm'):
        self._conf_text = conf_text
        self.node = node
        self.services = services
        self.is_before_octavia = False

    def _setUp(self):
        self.dest = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)
        self.conf_path = self.dest / 'octavia.conf'
        for name in ('answers', 'failures', 'codes', 'cloud',
                     'data/venv/bin'):
            (self.dest / name).mkdir(parents=True)
        self.install_command(COMMAND)
        self.install_command(OPENSTACK, 'openstack')
        self.answer('sync status -f value -c generation', '1')

    def install_command(self, text=REAL_COMMAND, name='octavia-hmsync'):
        """Put a command where its package would."""
        command = self.dest / 'data/venv/bin' / name
        command.write_text(text.replace('{python}', sys.executable))
        command.chmod(command.stat().st_mode | stat.S_IXUSR)

    def answer(self, command, text):
        """Have a command print something."""
        (self.dest / 'answers' / command.replace(' ', '_')).write_text(
            f'{text}\n')

    def fail(self, command, times=99, code=1):
        """Have a command fail."""
        name = command.replace(' ', '_')
        (self.dest / 'failures' / name).write_text(f'{times}\n')
        (self.dest / 'codes' / name).write_text(f'{code}\n')

    def bash(self, script, **env):
        """Run a script with devstack's functions and the settings.

        :returns: (exit code, what it printed).
        """
        settings = [OCTAVIA_SETTINGS.format(conf=self.conf_path,
                                            node=self.node),
                    f'source "{SETTINGS}"']
        if self.is_before_octavia:
            settings.reverse()
        done = subprocess.run(
            [base.need_program('bash'), '-c', '\n'.join(
                [f'source "{HELPERS}"', *settings, script])],
            env={'PATH': f'{self.dest}/data/venv/bin:{os.environ["PATH"]}',
                 'PYTHONPATH': str(TOP),
                 'DEVSTACK_DIR': os.environ.get('DEVSTACK_DIR', ''),
                 'DEST': str(self.dest), 'HOST_IP': '192.0.2.3',
                 'DATA_DIR': f'{self.dest}/data',
                 'ENABLED_SERVICES': self.services, 'GLOBAL_VENV': 'True',
                 'DEVSTACK_VENV': f'{self.dest}/data/venv',
                 'OCTAVIA_HMSYNC_TIMEOUT': '8', **env},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=150)
        return done.returncode, done.stdout

    def phase(self, *words, **env):
        """Run one phase of the plugin.

        :returns: the calls that it made, one string each.
        :raises AssertionError: if it failed.
        """
        code, output = self.try_phase(*words, **env)
        assert code == 0, output
        return self.calls()

    def try_phase(self, *words, **env):
        """Run one phase.

        :returns: (exit code, what it printed).
        """
        (self.dest / 'calls').unlink(missing_ok=True)
        return self.bash(f'source "{PLUGIN}" {" ".join(words)}', **env)

    def calls(self):
        """Return what the last phase did, without what it only said."""
        path = self.dest / 'calls'
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if not line.startswith('echo_')]

    def octavia_post_config(self):
        """Do what Octavia's plugin does in post-config."""
        self.conf_path.write_text(textwrap.dedent('''\
            [DEFAULT]
            debug = True

            [controller_worker]
            workers = 2
            ''') + self._conf_text)

    def octavia_extra(self):
        """Do what Octavia's plugin does in extra, before it starts all."""
        self.iniset('health_manager', 'controller_ip_port_list',
                    '192.0.2.3:5555, 192.0.2.4:5555')
        self.iniset('health_manager', 'bind_ip', '192.0.2.3')

    def iniset(self, section, option, value):
        """Set an option as local.conf does."""
        code, output = self.bash(
            f'iniset {self.conf_path} {section} {option} "{value}"')
        assert code == 0, output

    def stack(self, **env):
        """Run all phases of stack.sh.

        :returns: the calls made.
        """
        calls = self.phase('stack', 'install', **env)
        self.octavia_post_config()
        calls += self.phase('stack', 'post-config', **env)
        self.octavia_extra()
        calls += self.phase('stack', 'extra', **env)
        return calls + self.phase('stack', 'test-config', **env)

    def parse(self):
        """Parse octavia.conf with the real options.

        :returns: an oslo.config object.
        """
        conf = cfg.ConfigOpts()
        octavia_opts.register(conf)
        groups.register(conf)
        conf(['--config-file', str(self.conf_path)], default_config_dirs=[])
        return conf

    def set_options(self):
        """Return {(section, option): value}, of what octavia.conf sets."""
        parser = cfg.ConfigParser(str(self.conf_path), sections := {})
        parser.parse()
        return {(section, option): values
                for section, options in sections.items()
                for option, values in options.items()}


def is_source(source):
    """Tell whether a source of a configuration is the plugin's."""
    return isinstance(source, config_source.HMSyncConfigurationSource)


@functools.cache
def _get_openstack_commands():
    """Return {its words: entry point} of openstack's commands."""
    return {
        tuple(each.name.replace('_', ' ').split()): each
        for service in ('compute.v2', 'image.v2', 'network.v2',
                        'load_balancer.v2')
        for each in metadata.entry_points(group=f'openstack.{service}')}


def parse_openstack(words):
    """Parse a command as openstack does.

    :raises AssertionError: if it has no such command or option.
    """
    known = _get_openstack_commands()
    for length in range(len(words), 0, -1):
        if tuple(words[:length]) in known:
            command = known[tuple(words[:length])].load()
            parser = command(mock.MagicMock(), None).get_parser('openstack')
            try:
                return parser.parse_args(words[length:])
            except SystemExit:
                break
    raise AssertionError(f'openstack does not take: {" ".join(words)}')


def parse_command(words):
    """Parse a command as octavia-hmsync does.

    :raises SystemExit: if it has no such command or option.
    """
    app = hmsync.HMSyncApp()
    factory, name, rest = app.command_manager.find_command(words)
    return factory(app, None, cmd_name=name).get_parser(name).parse_args(rest)

# SPDX-License-Identifier: Apache-2.0

"""An instance: an amphora as processes in namespaces of its own."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess

import yaml

from tests.cloud import openvswitch
from tests.cloud import process

_HERE = pathlib.Path(__file__).resolve().parent
AGENT_CONF = '/etc/octavia/amphora-agent.conf'
# Of Debian 12, as tests have it.
HAPROXY_VERSION = '2.6.12-1+deb12u4'


@dataclasses.dataclass
class Image:
    """What an image of amphorae is like.

    :param haproxy_version: what its agent says.
    :param agent: a script in place of the amphora agent.
    :param programs: {name: text} of programs that it has instead of those of
                     this machine.
    :param environment: variables that its agent has, which go before its
                        configuration.
    :param boots: whether an instance of it becomes active.
    """

    haproxy_version: str = HAPROXY_VERSION
    agent: str = None
    programs: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    boots: bool = True

    def make_instance(self, name, instance_id, files, user_data, directory):
        """Return what the compute service boots."""
        return Instance(name, instance_id, self,
                        {**files, **_read_files(user_data)}, directory)


def _read_files(user_data):
    """Return {path: text} of what cloud-init writes of user data."""
    if not (user_data or '').startswith('#cloud-config'):
        return {}
    return {each['path']: each['content'] for each in
            yaml.safe_load(user_data).get('write_files', ())}


class Bootable:
    """What the compute service knows of an instance."""

    def describe(self, name, instance_id, image, directory):
        """Set it.

        :param instance_id: of the compute service.
        :param image: an Image.
        :param directory: where its files go.
        """
        self.instance_id = instance_id
        self.image = image
        self.instance_name = name
        self.image_id = self.flavor = None
        self.host = None
        self.state = 'BUILD'
        self.fault = None
        # By the id of the port; those that go with the instance.
        self.interfaces = {}
        self.own_ports = []
        # Not below the test's own directory: paths of sockets are short.
        self.directory = os.path.join(directory, instance_id[:8])

    def add_interface(self, name, mac):
        """Take what was plugged into its namespace."""

    def remove_interface(self, name):
        """Give back what add_interface() took."""


class Instance(Bootable, openvswitch.Namespace):
    """An instance, running or not; its network namespace is the machine.

    See Bootable for what is not here.

    :param files: {path: text} of its config drive.
    :param disk: a directory in memory for what it changes, so that it can be
                 booted again; without one all is gone when it ends.
    """

    def __init__(self, name, instance_id, image, files, directory, disk=None):
        self.describe(name, instance_id, image, directory)
        self._files = files
        super().__init__(f'instance-{instance_id[:8]}', directory)
        program = ([process.program('python'), '-P', image.agent]
                   if image.agent else [process.program('amphora-agent')])
        self.command = [
            'unshare', '--net', '--mount', '--pid', '--fork', '--kill-child',
            '--mount-proc', process.program('python'), '-P',
            str(_HERE / 'boot.py'), self.directory]
        self.env = process.environment(
            '/var/lib/octavia', **image.environment,
            TMPDIR=os.path.join(self.directory, 'tmp'),
            AGENT_COMMAND=json.dumps([*program, '--config-file',
                                      AGENT_CONF]))
        if disk:
            self.env['INSTANCE_DISK'] = disk
        self.env['PATH'] = os.pathsep.join([
            os.path.dirname(process.program('python')), self.env['PATH'],
            '/usr/sbin', '/sbin'])

    def _setUp(self):
        top = pathlib.Path(self.directory)
        for name in ('config', 'bin', 'log', 'tmp'):
            (top / name).mkdir(parents=True)
        for path, text in self._files.items():
            target = top / 'config' / path.lstrip('/')
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self._write_program('systemctl', (_HERE / 'bin/systemctl').read_text())
        self._write_program('dpkg-query', (
            f"#!/bin/sh\nprintf '%s' '{self.image.haproxy_version}'\n"))
        for name, text in self.image.programs.items():
            self._write_program(name, text)
        super()._setUp()

    def _write_program(self, name, text):
        path = pathlib.Path(self.directory, 'bin', name)
        path.write_text(text)
        path.chmod(0o755)

    def is_ready(self):
        return self.running and os.path.exists(f'{self.directory}/started')

    def restart(self):
        """Shut it down, and have it wait for its interfaces as at first."""
        for name in ('haproxy', 'octavia-keepalived'):
            for path in pathlib.Path(self.directory, 'log').glob(
                    f'{name}*.log'):
                self.systemctl('stop', path.stem)
        self.start_anew()

    def start_anew(self):
        """Cut its power, and have it wait for its interfaces as at first."""
        self.kill_tree()
        for name in ('started', 'plugged'):
            pathlib.Path(self.directory, name).unlink()
        self.start()
        self.wait_until_ready()

    def systemctl(self, *arguments):
        """Have its systemd do something."""
        subprocess.run(
            ['nsenter', f'--target={self._first_process()}', '--net',
             '--mount', '--pid', f'{self.directory}/bin/systemctl',
             *arguments], check=True, stdin=subprocess.DEVNULL, timeout=60,
            env=self.env)

    def boot(self, address, mtu):
        """Configure its first interface, and let it begin."""
        self.run('ip', 'address', 'add', address, 'dev', 'eth0')
        self.run('ip', 'link', 'set', 'eth0', 'mtu', str(mtu), 'up')
        pathlib.Path(self.directory, 'plugged').touch()

    def read_file(self, path):
        """Return the text of one of its own files."""
        return pathlib.Path(
            f'/proc/{self._first_process()}/root{path}').read_text()

    def command_inside(self, *command):
        """Return what runs a command where the haproxy of the amphora is."""
        return ['nsenter', f'--target={self._first_process()}', '--net',
                '--mount', '--pid', 'ip', 'netns', 'exec', 'amphora-haproxy',
                *command]

    def run_inside(self, *command, check=True):
        """Run a command where the haproxy of the amphora is.

        :returns: a CompletedProcess, with its output and errors as text.
        """
        done = subprocess.run(
            self.command_inside(*command), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=60, env=self.env)
        if check and done.returncode:
            raise RuntimeError(f'{" ".join(command)}: {done.stderr}')
        return done

    def _first_process(self):
        with open(f'/proc/{self.pid}/task/{self.pid}/children') as children:
            return int(children.read().split()[0])

    def log_tail(self, lines=25):
        texts = [super().log_tail(lines)]
        for path in sorted(pathlib.Path(self.directory, 'log').glob('*.log')):
            text = path.read_text(errors='replace').splitlines()[-lines:]
            texts.append('\n'.join([f'--- {path.name}', *text]))
        return '\n'.join(texts)

    def request_stop(self):
        """Cut its power: with unshare, which ignores a SIGTERM, go all."""
        self.kill()

    def remove(self):
        """Power it off, and take away its files."""
        if self.pid:
            self.cleanUp()
        shutil.rmtree(self.directory, ignore_errors=True)

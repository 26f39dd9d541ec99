# SPDX-License-Identifier: Apache-2.0

"""Nodes: network namespaces with an Open vSwitch each."""

import concurrent.futures
import ctypes
import json
import os
import re
import subprocess
import uuid

import fixtures
import psutil

from tests.cloud import process
from tests.cloud import waiting

SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class Namespace(process.ChildProcess):
    """A network namespace, with its loopback interface up.

    It has no name, but a process that lives in it, and goes with that.
    """

    def __init__(self, name, directory):
        super().__init__(name, ['unshare', '--net', 'sleep', 'infinity'],
                         directory)

    def _setUp(self):
        super()._setUp()
        self.wait_until_ready()
        self.run('ip', 'link', 'set', 'lo', 'up')

    @property
    def path(self):
        return f'/proc/{self.pid}/ns/net'

    def is_ready(self):
        if not self.running:
            return False
        if os.readlink(self.path) != os.readlink('/proc/self/ns/net'):
            return True
        if 'failed' in self.log():
            raise RuntimeError(f'network namespaces need root: {self.log()}')
        return False

    def wrap(self, command):
        """The command that runs a command in here."""
        return ['nsenter', f'--net={self.path}', *command]

    def run(self, *command, check=True, **kwargs):
        """Run a command in here; returns a CompletedProcess with text.

        :raises RuntimeError: it failed, or takes more than a minute.
        """
        said = f'{self.name}: {" ".join(command)}'
        try:
            done = subprocess.run(
                self.wrap(command), stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                **kwargs)
        except subprocess.TimeoutExpired as e:
            raise RuntimeError(f'{said}: no end after {e.timeout} s') from e
        if check and done.returncode:
            raise RuntimeError(f'{said}: {done.stderr}')
        return done

    def call(self, function, *args, **kwargs):
        """Call a function of this process in here; return what it does."""
        def enter_and_call():
            # Of the thread alone, which ends after it.
            with open(self.path) as namespace:
                if _LIBC.setns(namespace.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), 'setns')
            return function(*args, **kwargs)
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            return executor.submit(enter_and_call).result()

    def link(self, other, name, other_name):
        """Connect two namespaces with a pair of interfaces, up.

        Packets that a program in a vswitch passes on get no checksum from
        hardware that does not exist.
        """
        process.run(
            'ip', 'link', 'add', name, 'netns', str(self.pid), 'type',
            'veth', 'peer', other_name, 'netns', str(other.pid))
        for namespace, end in ((self, name), (other, other_name)):
            namespace.run('ethtool', '-K', end, 'tx', 'off')
            namespace.run('ip', 'link', 'set', end, 'up')


class OpenVswitch(fixtures.Fixture):
    """ovsdb-server and ovs-vswitchd in a namespace, in user space alone.

    :param namespace: a Namespace
    :param host: its name, as an agent of Neutron would have it
    :param bridge: the integration bridge; None makes none
    """

    def __init__(self, namespace, host, directory, bridge='br-int'):
        super().__init__()
        self._namespace = namespace
        self.host = host
        self.directory = os.path.join(directory, f'ovs-{host}')
        self.bridge = bridge
        self.socket = os.path.join(self.directory, 'db.sock')
        self.connection = f'unix:{self.socket}'

    def _setUp(self):
        os.makedirs(self.directory)
        database = os.path.join(self.directory, 'conf.db')
        process.run('ovsdb-tool', 'create', database, SCHEMA)
        self.environment = process.environment(
            self.directory, OVS_RUNDIR=self.directory,
            OVS_DBDIR=self.directory, OVS_LOGDIR=self.directory)
        self.server = self._child(
            'ovsdb-server', database, f'--remote=p{self.connection}')
        self._wait_for(self.is_server_ready, self.server)
        self.vsctl('--no-wait', 'init')
        self.vsctl('--no-wait', 'set', 'Open_vSwitch', '.',
                   f'external_ids:hostname={self.host}',
                   f'external_ids:system-id={self.host}')
        self.vswitchd = self._child('ovs-vswitchd', self.connection)
        if self.bridge:
            self.vsctl('add-br', self.bridge, '--', 'set', 'Bridge',
                       self.bridge, 'datapath_type=netdev')

    def _child(self, name, *arguments):
        return self.useFixture(process.ChildProcess(
            f'{name}-{self.host}', self._namespace.wrap([
                process.system_program(name), *arguments, '--no-chdir',
                f'--pidfile={self.directory}/{name}.pid']),
            self.directory, env=self.environment, cwd=self.directory))

    def _wait_for(self, condition, child):
        waiting.wait_for(condition, f'sign of {child.name}',
                         processes=[child])

    def vsctl(self, *arguments):
        """Run ovs-vsctl; returns its output."""
        return process.run(
            'ovs-vsctl', '--timeout=60', f'--db={self.connection}',
            *arguments, env=self.environment).strip()

    def get_cpu(self):
        """Return the seconds of a processor that ovs-vswitchd has taken."""
        return sum(psutil.Process(self.vswitchd.pid).cpu_times()[:2])

    def wait_for_revalidators(self):
        """Have it account for all packets that its cache has forwarded."""
        self.appctl('revalidator/wait')

    def appctl(self, *arguments):
        """Run ovs-appctl for ovs-vswitchd; returns its output."""
        return process.run('ovs-appctl', '-t', 'ovs-vswitchd', *arguments,
                           env=self.environment)

    def ofctl(self, command, bridge, *arguments):
        """Run ovs-ofctl for a bridge; returns its output."""
        return process.run(
            'ovs-ofctl', '-O', 'OpenFlow15', '--timeout=60', command,
            f'unix:{self.directory}/{bridge}.mgmt', *arguments,
            env=self.environment)

    def get_external_ids(self, name):
        """What Open vSwitch says of an interface, a dict."""
        text = self.vsctl('get', 'Interface', name, 'external_ids')
        return {key: value.strip('"') for key, value in
                re.findall(r'([\w-]+)=("[^"]*"|[^,}]*)', text)}

    def reboot(self):
        """What a reboot leaves: the database, and nothing in the kernel."""
        self.vswitchd.stop()
        self.server.stop()
        # They outlive a mere restart.
        for interface in json.loads(self._namespace.run(
                'ip', '-json', 'link', 'show', 'type', 'tun').stdout):
            self._namespace.run('ip', 'link', 'delete', interface['ifname'])
        self.start()

    def start(self):
        """Start all of it again."""
        self.server.start()
        self._wait_for(self.is_server_ready, self.server)
        self.start_vswitchd()

    def start_vswitchd(self):
        """Start it again, and wait until it has done its work."""
        self.vswitchd.start()
        # A change is waited for.
        self.vsctl('set', 'Open_vSwitch', '.',
                   f'external_ids:boot={uuid.uuid4()}')

    def is_server_ready(self):
        try:
            self.vsctl('--no-wait', 'show')
        except RuntimeError:
            return False
        return True

    def link(self, other, name):
        """Connect the bridges of two nodes; never in a circle."""
        self._namespace.link(other._namespace, name, f'{name}-peer')
        self.vsctl('add-port', self.bridge, name)
        other.vsctl('add-port', other.bridge, f'{name}-peer')

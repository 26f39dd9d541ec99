# SPDX-License-Identifier: Apache-2.0

"""libvirtd on a node, for Nova's own compute driver."""

import json
import os
import pathlib
import subprocess

import fixtures

from tests.cloud.compute import qemu
from tests.cloud import process
from tests.cloud import waiting

# Debian's binding is of its Python, and no wheel has one.
BINDING = '/usr/lib/python3/dist-packages'
_QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
cgroup_controllers = []
namespaces = []
security_driver = "none"
stdio_handler = "file"
"""
_LIBVIRTD_CONF = """
unix_sock_dir = "{top}"
auth_unix_rw = "none"
auth_unix_ro = "none"
"""
# What it has at fixed paths is this node's: its configuration, a user that a
# package of Debian's would have made, and Open vSwitch.
_START = """
set -e
cp -a /etc {top}
mkdir -p {top}/etc/libvirt
cp {top}/qemu.conf {top}/etc/libvirt
echo 'libvirt-qemu:x:64055:64055::/:/bin/false' >> {top}/etc/passwd
mount --bind {top}/etc /etc
mount --bind {top}/lib /var/lib/libvirt
mount --bind {top}/cache /var/cache/libvirt
mount --bind {top}/run /run
hostname {host}
# The shell reaps what daemons leave.
{libvirtd} -f {top}/libvirtd.conf --pid-file {top}/libvirtd.pid
"""
# Without qemu.OFFLOADS.
_EMULATOR = """#!/bin/sh
exec {program} "$@" {off}
"""


class _Daemon(process.ChildProcess):

    def request_stop(self):
        """Cut the power: with unshare, which ignores a SIGTERM, go all."""
        self.kill()


class Libvirt(fixtures.Fixture):
    """libvirtd in the namespace of a node; its machines are emulated.

    .uri is where it is connected to.

    :param node: a nodes.Node.
    :param directory: a short one: it will hold sockets.
    """

    def __init__(self, node, directory):
        super().__init__()
        self._node = node
        self._top = pathlib.Path(directory, f'libvirt-{node.host}')
        self.uri = f'qemu+unix:///system?socket={self._top}/libvirt-sock'

    def _setUp(self):
        top = self._top
        for name in ('lib', 'cache', 'run', 'bin'):
            (top / name).mkdir(parents=True)
        (top / 'run/openvswitch').symlink_to(self._node.vswitch.directory)
        (top / 'qemu.conf').write_text(_QEMU_CONF)
        (top / 'libvirtd.conf').write_text(_LIBVIRTD_CONF.format(top=top))
        emulator = top / 'bin/qemu-system-x86_64'
        emulator.write_text(_EMULATOR.format(
            program=qemu.program(), off=' '.join(
                f'-global virtio-net-pci.{name}=off'
                for name in qemu.OFFLOADS)))
        emulator.chmod(0o755)
        child = _Daemon(
            f'libvirtd-{self._node.host}', self._node.namespace.wrap([
                'unshare', '--mount', '--uts', '--pid', '--fork',
                '--kill-child', '--mount-proc', 'sh', '-c', _START.format(
                    top=top, host=self._node.host,
                    libvirtd=process.system_program('libvirtd'))]),
            self._node.vswitch.directory,
            env=process.environment(str(top)))
        child.env['PATH'] = os.pathsep.join([
            str(top / 'bin'), child.env['PATH'], '/usr/sbin', '/sbin'])
        self.daemon = self.useFixture(child)
        waiting.wait_for(self.is_ready, f'sign of {child.name}',
                         processes=[child])

    def is_ready(self):
        try:
            self.virsh('list')
        except (RuntimeError, subprocess.TimeoutExpired):
            return False
        return True

    def virsh(self, *arguments, timeout=60):
        """Run virsh; returns its output."""
        return process.run('virsh', '-q', '-c', self.uri, *arguments,
                           timeout=timeout)


class GuestAgent(qemu.GuestAgent):
    """The agent in a guest of libvirt's, which has the channel to it.

    :param host: a Libvirt.
    :param domain: the id of the instance.
    """

    def __init__(self, host, domain):
        super().__init__(None)
        self._host = host
        self._domain = domain

    def execute(self, command, **arguments):
        try:
            said = self._host.virsh('qemu-agent-command', self._domain,
                                    json.dumps({'execute': command,
                                                'arguments': arguments}))
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            raise ConnectionError(str(e)) from e
        return json.loads(said)['return']

    def is_ready(self):
        try:
            self.execute('guest-ping')
        except OSError:
            return False
        return True

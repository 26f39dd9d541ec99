# SPDX-License-Identifier: Apache-2.0

"""Amphorae as virtual machines: QEMU boots an image from a config drive."""

import dataclasses
import ipaddress
import os
import pathlib
import shutil

import fixtures

from tests.cloud.compute import config_drive
from tests.cloud.compute import disk_image
from tests.cloud.compute import instance
from tests.cloud.compute import qemu
from tests.cloud import openvswitch
from tests.cloud import process
from tests.cloud import waiting

# What an amphora does not need of Debian, and takes a minute or more of an
# emulated processor at boot.
_MASKED = ('apt-daily.timer', 'apt-daily-upgrade.timer', 'atd.service',
           'e2scrub_reap.service',
           'irqbalance.service', 'man-db.timer',
           'dpkg-db-backup.timer', 'e2scrub_all.timer', 'fstrim.timer',
           'systemd-timesyncd.service')

# A virtual machine boots for minutes where it is emulated, and what runs in
# it takes ten times longer than the tests have it otherwise.
SLOW = {
    'controller_worker': {'amp_active_retries': 300},
    'haproxy_amphora': {
        'connection_max_retries': 450, 'connection_retry_interval': 2,
        'rest_request_conn_timeout': 30, 'rest_request_read_timeout': 300},
    'health_manager': {'heartbeat_interval': 3, 'heartbeat_timeout': 900},
    'hmsync': {'upload_timeout': 120, 'claim_expiry': 600},
    'hmsync_image': {'proof_timeout': 900},
    'hmsync_cluster': {'update_timeout': 600},
}
# Seconds, at most.
BOOT = 900


@dataclasses.dataclass
class Image(instance.Image):
    """One that is a disk.

    :param files: a disk_image.DiskImage.
    :param memory: of an instance, in MiB.
    :param apparmor: whether its kernel enforces profiles; loading them takes
                     minutes on an emulated processor.
    """

    files: disk_image.DiskImage = None
    memory: int = 640
    apparmor: bool = False

    @property
    def kernel_arguments(self):
        return ' '.join([
            'root=/dev/vda', 'ro', 'console=ttyS0', 'net.ifnames=0',
            f'apparmor={int(self.apparmor)}',
            *(f'systemd.mask={unit}' for unit in _MASKED)])

    def make_instance(self, name, instance_id, files, user_data, directory):
        return VirtualMachine(name, instance_id, self, files, user_data,
                              directory)


class Guest:
    """Runs commands inside, and has the console.

    For what has .agent, a qemu.GuestAgent, and ._console, a pathlib.Path.
    """

    def console(self):
        """What it has written to its console."""
        try:
            return self._console.read_text(errors='replace')
        except OSError as e:
            return f'(no console: {e})'

    def wait_until_up(self):
        """Wait until commands can be run in it; returns self."""
        waiting.wait_for(self.agent.is_ready, f'agent in {self.name}',
                         interval=1, processes=[self])
        return self

    def run_inside(self, *command, check=True):
        """Run a command where the haproxy of the amphora is.

        :returns: a CompletedProcess, with its output and errors as text.
        """
        return self.run_in_guest('ip', 'netns', 'exec', 'amphora-haproxy',
                                 *command, check=check)

    def run_in_guest(self, *command, check=True):
        """Run a command as root of the machine."""
        done = self.agent.run(*command)
        if check and done.returncode:
            raise RuntimeError(f'{" ".join(command)}: {done.stderr}')
        return done


class VirtualMachine(Guest, instance.Bootable, fixtures.Fixture):
    """A virtual machine, running or not.

    What is plugged comes into a network namespace of its own, and is bridged
    to a tap there.

    :param files: {path: text} that Nova would put into it.
    :param user_data: what cloud-init does.
    """

    def __init__(self, name, instance_id, image, files, user_data, directory):
        super().__init__()
        self.describe(name, instance_id, image, directory)
        self._files = files
        self._user_data = user_data
        self._namespace = openvswitch.Namespace(
            f'instance-{instance_id[:8]}', directory)
        self._log_directory = directory
        # {name: (tap, MAC)}; in their order.
        self._nics = {}
        self._qemu = None
        self._parts = 0
        path = pathlib.Path(self.directory)
        self._drive, self._disk = path / 'config.iso', path / 'disk.qcow2'
        self._console = path / 'console.log'
        self.monitor = qemu.Monitor(str(path / 'qmp'))
        self.agent = qemu.GuestAgent(str(path / 'qga'))

    def _setUp(self):
        os.makedirs(self.directory)
        self.useFixture(self._namespace)
        # The host of a machine is no neighbour of it.
        self._namespace.run(
            'sysctl', '-q', '-w', 'net.ipv6.conf.all.disable_ipv6=1',
            'net.ipv6.conf.default.disable_ipv6=1')

    # Whoever plugs it takes it for its namespace.

    @property
    def pid(self):
        return self._namespace.pid

    def run(self, *command, **kwargs):
        """Run a command where QEMU is, not in the machine."""
        return self._namespace.run(*command, **kwargs)

    def add_interface(self, name, mac):
        self._parts += 1
        bridge, tap = f'br{self._parts}', f'vm{self._parts}'
        # It is the machine's; the bridge would keep what is for it.
        ours = f'fe:{mac[3:]}'
        for command in (
                ('link', 'add', bridge, 'type', 'bridge', 'mcast_snooping',
                 '0'),
                ('tuntap', 'add', 'dev', tap, 'mode', 'tap'),
                ('link', 'set', name, 'address', ours, 'master', bridge,
                 'up'),
                ('link', 'set', tap, 'master', bridge, 'up'),
                ('link', 'set', bridge, 'up')):
            self.run('ip', *command)
        self._nics[name] = tap, mac
        if self.running:
            self.monitor.add_nic(name, tap, mac)

    def remove_interface(self, name):
        tap, _ = self._nics.pop(name)
        if self.running:
            self.monitor.remove_nic(name)
        self.run('ip', 'link', 'delete', tap, check=False)

    # Its power

    def boot(self, address, mtu):
        """Power it on for the first time."""
        name, (_, mac) = next(iter(self._nics.items()))
        config_drive.write(
            self._drive, self.instance_name, self.instance_id, self._files,
            self._user_data,
            [(name, mac, mtu, ipaddress.ip_interface(address))])
        process.run('qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'raw',
                    '-b', self.image.files.disk, self._disk)
        self._qemu = process.ChildProcess(
            f'qemu-{self.instance_id[:8]}', self._namespace.wrap(
                self._make_command()), self._log_directory)
        self.useFixture(self._qemu)

    def _make_command(self):
        files = self.image.files
        accelerator, processor = qemu.get_acceleration(files.kernel,
                                                       files.initrd)
        command = [
            qemu.program(), '-name', self.instance_name, '-nodefaults',
            '-no-user-config', '-display', 'none', '-machine', 'pc',
            '-accel', accelerator, '-cpu', processor, '-smp', '1',
            '-m', str(self.image.memory), '-kernel', str(files.kernel),
            '-initrd', str(files.initrd),
            '-append', self.image.kernel_arguments,
            '-chardev', f'file,id=console,path={self._console},append=on',
            '-serial', 'chardev:console',
            '-drive', f'file={self._disk},if=virtio,cache=unsafe',
            '-drive', f'file={self._drive},if=virtio,format=raw,readonly=on',
            '-device', 'virtio-rng-pci', '-device', 'virtio-serial-pci']
        for name in ('qga', 'qmp'):
            command += ['-chardev', f'socket,id={name},server=on,wait=off,'
                                    f'path={self.directory}/{name}']
        command += ['-device', 'virtserialport,chardev=qga,'
                               'name=org.qemu.guest_agent.0',
                    '-mon', 'chardev=qmp,mode=control']
        for name, (tap, mac) in self._nics.items():
            nic = {key: {True: 'on', False: 'off'}.get(value, value)
                   for key, value in qemu.get_nic(name, mac).items()}
            command += [
                '-netdev', f'tap,id=net-{name},ifname={tap},script=no,'
                           f'downscript=no',
                '-device', ','.join([nic.pop('driver'), *(
                    f'{key}={value}' for key, value in nic.items())])]
        return command

    @property
    def running(self):
        return self._qemu is not None and self._qemu.running

    def kill_tree(self):
        """Cut its power."""
        self._qemu.kill_tree()

    def start(self):
        """Power it on again, with what is plugged now."""
        self._qemu.command = self._namespace.wrap(self._make_command())
        self._qemu.start()

    def request_stop(self):
        if self._qemu:
            self._qemu.request_stop()

    def remove(self):
        """Power it off, and take away its files."""
        if self.pid:
            self.cleanUp()
        shutil.rmtree(self.directory, ignore_errors=True)

    # For who waits

    @property
    def name(self):
        return self.instance_name

    @property
    def log_path(self):
        return str(self._console)

    def log_tail(self, lines=60):
        said = self._qemu.log_tail() if self._qemu else ''
        return '\n'.join([said, *self.console().splitlines()[-lines:]])

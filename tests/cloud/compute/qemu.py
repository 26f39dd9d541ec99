# SPDX-License-Identifier: Apache-2.0

"""QEMU: how it runs here, its monitor, and its agent in a guest."""

import base64
import functools
import json
import os
import random
import socket
import subprocess
import time

from tests.cloud import process
from tests.cloud import waiting

# Of user space, on whatever processor.
_EMULATION = ('tcg,tb-size=128', 'max')
_VIRTUALISATION = ('kvm', 'max')
# Where it works, it is a matter of one.
_PROBE_SECONDS = 20
_INIT = 'Run /bin/true as init process'
# The vswitch at the other end may be a program: no checksum is left to do for
# hardware.
OFFLOADS = ('csum', 'gso', 'guest_csum', 'guest_tso4', 'guest_tso6',
            'guest_ecn', 'guest_ufo', 'host_tso4', 'host_tso6', 'host_ecn',
            'host_ufo', 'mrg_rxbuf')


def program():
    return process.system_program('qemu-system-x86_64')


@functools.cache
def get_acceleration(kernel, initrd):
    """Return what runs virtual machines here: accelerator, processor.

    There are machines where /dev/kvm can be opened, and a virtual machine be
    made, whose kernel does not get through its first second then. So it is
    tried with a kernel.
    """
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return _EMULATION
    accelerator, processor = _VIRTUALISATION
    try:
        done = subprocess.run(
            [program(), '-nodefaults', '-no-user-config', '-display', 'none',
             '-accel', accelerator, '-cpu', processor, '-m', '256',
             '-no-reboot', '-serial', 'stdio', '-kernel', kernel, '-initrd',
             initrd, '-append', 'console=ttyS0 panic=-1 rdinit=/bin/true'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=_PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _EMULATION
    works = not done.returncode and _INIT.encode() in done.stdout
    return _VIRTUALISATION if works else _EMULATION


class Refused(Exception):
    """The other side answered with an error."""


class _Peer:
    """One that takes an object in JSON on a line, and answers with one."""

    timeout = 60

    def __init__(self, path):
        self._path = path

    def execute(self, command, **arguments):
        """Have a command executed; returns what it answers.

        :raises Refused: with what it says.
        :raises OSError: it does not answer.
        """
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(self.timeout)
            client.connect(self._path)
            with client.makefile('rwb', buffering=0) as stream:
                self._greet(stream)
                return self._ask(stream, command, arguments)

    def _ask(self, stream, command, arguments):
        stream.write(json.dumps({
            'execute': command, 'arguments': arguments}).encode() + b'\n')
        while True:
            answer = self._read(stream)
            if 'error' in answer:
                raise Refused(f'{command}: {answer["error"]["desc"]}')
            if 'return' in answer:
                return answer['return']

    @staticmethod
    def _read(stream):
        line = stream.readline()
        if not line:
            raise ConnectionError('no answer')
        # What was there before the agent is in front of its answer.
        return json.loads(line.rpartition(b'\xff')[2])


class Monitor(_Peer):
    """QMP: what is plugged, and the power."""

    def _greet(self, stream):
        self._read(stream)
        self._ask(stream, 'qmp_capabilities', {})

    def add_nic(self, name, tap, mac):
        """Plug a network interface while the machine runs."""
        self.execute('netdev_add', type='tap', id=f'net-{name}', ifname=tap,
                     script='no', downscript='no')
        self.execute('device_add', **get_nic(name, mac))

    def remove_nic(self, name):
        """Take it away as soon as the guest gives it back."""
        device = f'nic-{name}'
        self.execute('device_del', id=device)
        waiting.wait_for(
            lambda: device not in {each['name'] for each in self.execute(
                'qom-list', path='/machine/peripheral')},
            f'end of {device}')
        self.execute('netdev_del', id=f'net-{name}')


def get_nic(name, mac):
    """Return a network interface as the monitor takes it."""
    return {'driver': 'virtio-net-pci', 'id': f'nic-{name}', 'mac': mac,
            'netdev': f'net-{name}', **dict.fromkeys(OFFLOADS, False)}


class GuestAgent(_Peer):
    """Runs commands in a guest, as root."""

    def _greet(self, stream):
        number = random.randrange(1 << 30)  # nosec B311
        stream.write(b'\xff' + json.dumps({
            'execute': 'guest-sync-delimited',
            'arguments': {'id': number}}).encode() + b'\n')
        while self._read(stream).get('return') != number:
            # The answer to somebody who has left.
            pass

    def is_ready(self):
        """Whether it answers, soon."""
        try:
            _Impatient(self._path).execute('guest-ping')
        except (OSError, ValueError, Refused):
            return False
        return True

    def run(self, *command, timeout=120):
        """Run a command; returns a CompletedProcess with text."""
        pid = self.execute('guest-exec', path=command[0],
                           arg=list(command[1:]),
                           **{'capture-output': True})['pid']
        deadline = time.monotonic() + timeout
        while not (done := self.execute('guest-exec-status',
                                        pid=pid))['exited']:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(command, timeout)
            time.sleep(0.2)
        return subprocess.CompletedProcess(
            command, done.get('exitcode', -done.get('signal', 0)),
            *(base64.b64decode(done.get(name, '')).decode(errors='replace')
              for name in ('out-data', 'err-data')))


class _Impatient(GuestAgent):
    timeout = 3

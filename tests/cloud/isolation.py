# SPDX-License-Identifier: Apache-2.0

"""A network and a /var/log of one's own for a process that runs tests."""

import ctypes
import os

from tests.cloud import process

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
# Where the network of the machine is, for a process that is in its own, and
# for all that it starts: a client in a node's namespace has to stay there.
_OUTSIDE = 'OCTAVIA_HMSYNC_TESTS_OUTSIDE'


def isolate():
    """Move this process, and all that it starts, into namespaces of its own.

    Several processes run tests at once. Each then has a loopback interface
    with all addresses and ports, hears no datagram of the others, and
    amphora agents of theirs do not write into its logs. Ends with the
    process. Without the right to do so the tests share what the machine has.
    """
    if _OUTSIDE in os.environ or os.geteuid():
        return
    before = os.open('/proc/self/ns/net', os.O_RDONLY)
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS | _CLONE_NEWNET):
        os.close(before)
        return
    os.environ[_OUTSIDE] = f'/proc/{os.getpid()}/fd/{before}'
    process.run('mount', '--make-rprivate', '/')
    for directory in ('/var/log', '/run/netns'):
        os.makedirs(directory, exist_ok=True)
        process.run('mount', '-t', 'tmpfs', 'tests', directory)
    process.run('ip', 'link', 'set', 'lo', 'up')


def outside(*command):
    """Return the command that runs a command where the machine's network is.

    For what asks an index of packages.
    """
    if _OUTSIDE not in os.environ:
        return list(command)
    return ['nsenter', f'--net={os.environ[_OUTSIDE]}', *command]

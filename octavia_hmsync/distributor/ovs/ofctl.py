# SPDX-License-Identifier: Apache-2.0

"""What ovs-vswitchd is told of flows and groups, by ovs-ofctl."""

import contextlib
import dataclasses
import os
import re
import socket
import subprocess  # nosec B404
import time

from octavia_hmsync.distributor.ovs import wire
from octavia_hmsync import exceptions

_VERSION = 'OpenFlow15'
# Of bytes, the most that a greeting has.
_HELLO_LENGTH, _HELLO = 4096, b'\0'
_LOST = re.compile(r'lookups:.* lost:(\d+)')
_DUMP_DURATION = re.compile(r'dump duration\s*: (\d+)ms')
_FLOWS = re.compile(r'\brules:(\d+)')
_CACHED = re.compile(r'\(current (\d+)\).*\(limit (\d+)\)')
# Seconds: after a change ovs-vswitchd looks over its cache at once, and once
# more if it was about to; it does so twice a second else.
_MARGIN = 0.05
_TWO_DUMPS = 1


@dataclasses.dataclass(frozen=True)
class Load:
    """What ovs-vswitchd has, of all bridges of the node.

    :param flows: of OpenFlow, pins among them.
    :param cached: flows of the data path: connections that had a packet in
                   the last ten seconds, about.
    :param cache_limit: of cached flows that it allows for just now.
    """

    flows: int
    cached: int
    cache_limit: int


class Ofctl:
    """Speaks OpenFlow to the bridges of this node, each by its name.

    All methods raise VswitchUnavailable, saying what is wrong.

    :param rundir: where ovs-vswitchd has the sockets of its bridges.
    :param timeout: seconds for one call.
    """

    def __init__(self, rundir, timeout):
        self._rundir = rundir
        self._timeout = timeout

    def apply(self, bridge, lines):
        """Change flows and groups by a bundle, all at once or none."""
        self._run('bundle', bridge, '-', text='\n'.join((*lines, '')))

    def count(self, bridge, *matches):
        """Return how many flows there are of each match, as sum()."""
        return [found.flows for found in self.sum(bridge, *matches)]

    def sum(self, bridge, *matches):
        """Sum up flows, without a process for it.

        :param matches: of which flows, each an openflow.Match.
        :returns: a wire.Sum of each match, a list.
        """
        with contextlib.closing(wire.Line(self.get_socket(bridge),
                                          0)) as line:
            return line.sum(matches, self._timeout)

    def get_groups(self, bridge):
        """Return the ids of the groups of a bridge, as a set."""
        out = self._run('dump-groups', bridge)
        return {int(number) for number in re.findall(r'group_id=(\d+)', out)}

    def get_flows(self, bridge, match):
        """Return flows of an openflow.Match as text, with their counters."""
        out = self._run('dump-flows', bridge, match.to_text())
        return [line.strip() for line in out.splitlines()
                if line.strip().startswith('cookie=')]

    def wait_for_cache(self):
        """Wait until what its cache forwarded before apply() is accounted for.

        Learned, too: by the flows of now. To be called right after apply().
        """
        # revalidator/wait would wait for the look after that, half a second
        # later.
        dumps = self._get_dumps()
        time.sleep(min(_TWO_DUMPS, _MARGIN + 2 * max(dumps)) if dumps
                   else _TWO_DUMPS)

    def count_lost(self):
        """Return how many packets its data paths have lost.

        ovs-vswitchd was too busy for these, as for answers to probes.

        :returns: a number that only grows; None where that is not told.
        """
        try:
            found = _LOST.findall(self._ask('dpctl/show'))
        except exceptions.VswitchUnavailable:
            return None
        return sum(map(int, found)) if found else None

    def _get_dumps(self):
        """Return for how long its last dumps lasted, of each data path."""
        try:
            shown = self._ask('upcall/show')
        except exceptions.VswitchUnavailable:
            return []
        return [int(ms) / 1000 for ms in _DUMP_DURATION.findall(shown)]

    def read_load(self):
        """Return what ovs-vswitchd has, of all bridges: a Load."""
        flows = _FLOWS.search(self._ask('memory/show'))
        # Of each kind of data path.
        cached = _CACHED.findall(self._ask('upcall/show'))
        return Load(int(flows.group(1)) if flows else 0,
                    *(sum(map(int, each)) for each in
                      zip(*cached or [(0, 0)])))

    def get_cache(self, datapath_type, mac=None):
        """Return flows of the data path, each as text.

        ovs-vswitchd does nothing else meanwhile.

        :param datapath_type: system or netdev.
        :param mac: of frames that they are for; None for all.
        """
        return self._ask(
            'dpctl/dump-flows', f'{datapath_type}@ovs-{datapath_type}',
            *([f'filter=dl_dst={mac}'] if mac else ())).splitlines()

    def _ask(self, *command):
        """Ask ovs-vswitchd itself; returns what it says."""
        try:
            # By name, ovs-appctl would not find it in another container.
            with open(os.path.join(self._rundir, 'ovs-vswitchd.pid'),
                      encoding='ascii') as one:
                name = f'ovs-vswitchd.{int(one.read())}.ctl'
            return subprocess.run(  # nosec B603 B607
                ['ovs-appctl', f'--timeout={self._timeout}', '-t',
                 os.path.join(self._rundir, name), *command],
                capture_output=True, text=True, check=True,
                timeout=2 * self._timeout).stdout
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            raise exceptions.VswitchUnavailable(
                f'ovs-appctl does not say how ovs-vswitchd is '
                f'({command[0]}: {e}).') from e

    def check(self, bridge):
        """Check that ovs-vswitchd answers for a bridge that must be there."""
        place = self.get_socket(bridge)
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(self._timeout)
                one.connect(place)
                # Both sides begin with that.
                greeting = one.recv(_HELLO_LENGTH)
                if greeting[1:2] != _HELLO:
                    raise OSError('it does not speak OpenFlow')
                # ovs-vswitchd warns in its log of a client that hangs up
                # without this.
                one.sendall(greeting)
        except OSError as e:
            raise exceptions.VswitchUnavailable(
                f'ovs-vswitchd cannot be reached at {place} ({e}): start '
                f'Open vSwitch on this node, make its directory available '
                f'here (in a container, mount /run/openvswitch), or correct '
                f'[hmsync_distributor] openvswitch_rundir.') from e

    def get_boot(self, bridge):
        """Return what another run of ovs-vswitchd has another of.

        :returns: something to compare; None if it has no such bridge.
        """
        try:
            found = os.stat(self.get_socket(bridge))
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    def get_socket(self, bridge):
        """Return the path of the socket of a bridge."""
        return os.path.join(self._rundir, f'{bridge}.mgmt')

    def _run(self, command, bridge, *arguments, text=None):
        try:
            # It would ask for the names of all ports, and for all features of
            # all tables, by a connection of its own each.
            done = subprocess.run(  # nosec B603 B607
                ['ovs-ofctl', '-O', _VERSION, f'--timeout={self._timeout}',
                 '--no-names', command, f'unix:{self.get_socket(bridge)}',
                 *arguments],
                input=text or '', capture_output=True, text=True,
                timeout=2 * self._timeout)
        except FileNotFoundError:
            raise exceptions.VswitchUnavailable(
                'ovs-ofctl is not installed: install the package '
                'openvswitch-switch (in a container, openvswitch-common).'
            ) from None
        except (OSError, subprocess.TimeoutExpired) as e:
            raise exceptions.VswitchUnavailable(
                f'ovs-ofctl could not be run: {e}.') from None
        if not done.returncode:
            return done.stdout
        if done.returncode < 0:
            reason = f'no answer within {self._timeout} s'
        else:
            reason = (done.stderr.strip().splitlines() or ['no message'])[-1]
        raise exceptions.VswitchUnavailable(
            f'ovs-vswitchd did not do what it was told of {bridge} '
            f'({command}: {reason.removeprefix("ovs-ofctl: ")}): see its '
            f'log, and [hmsync_distributor] openvswitch_rundir.')

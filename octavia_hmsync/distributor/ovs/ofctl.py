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

"""What ovs-vswitchd is told of flows and groups, by ovs-ofctl."""

import os
import re
import socket
import subprocess  # nosec B404

from octavia_hmsync import exceptions

_VERSION = 'OpenFlow15'
_HELLO_LENGTH, _HELLO = 8, b'\0'
_COUNTERS = re.compile(
    r'packet_count=(\d+) byte_count=(\d+) flow_count=(\d+)')


class Ofctl:
    """Speaks OpenFlow to the bridges of this node.

    :param rundir: where ovs-vswitchd has the sockets of its bridges.
    :param timeout: seconds for one call.
    """

    def __init__(self, rundir, timeout):
        self._rundir = rundir
        self._timeout = timeout

    def apply(self, bridge, lines):
        """Change flows and groups, all at once or none.

        :param bridge: its name.
        :param lines: a bundle.
        :raises VswitchUnavailable: saying what is wrong.
        """
        self._run('bundle', bridge, '-', text='\n'.join((*lines, '')))

    def count(self, bridge, match):
        """Count flows.

        :param bridge: its name.
        :param match: of which flows, as ovs-ofctl takes it.
        :returns: their number, and that of the packets and bytes that they
                  had.
        :raises VswitchUnavailable: saying what is wrong.
        """
        out = self._run('dump-aggregate', bridge, match)
        found = _COUNTERS.search(out)
        if found is None:
            raise exceptions.VswitchUnavailable(
                f'ovs-ofctl does not say how many flows {bridge} has: '
                f'{out.strip() or "nothing"}.')
        packets, size, flows = map(int, found.groups())
        return flows, packets, size

    def get_groups(self, bridge):
        """Return the ids of the groups of a bridge, as a set.

        :param bridge: its name.
        :raises VswitchUnavailable: saying what is wrong.
        """
        out = self._run('dump-groups', bridge)
        return {int(number) for number in re.findall(r'group_id=(\d+)', out)}

    def get_flows(self, bridge, match):
        """Return flows, each as text of ovs-ofctl, with its counters.

        :param bridge: its name.
        :param match: of which flows, as ovs-ofctl takes it.
        :raises VswitchUnavailable: saying what is wrong.
        """
        out = self._run('dump-flows', bridge, match)
        return [line.strip() for line in out.splitlines()
                if line.strip().startswith('cookie=')]

    def send(self, bridge, port, frames):
        """Send frames.

        :param bridge: its name.
        :param port: the OpenFlow port that they leave by.
        :param frames: bytes each.
        :raises VswitchUnavailable: saying what is wrong.
        """
        for frame in frames:
            self._run('packet-out', bridge,
                      f'in_port=controller packet={frame.hex()} '
                      f'actions=output:{port}')

    def check(self, bridge):
        """Check that ovs-vswitchd answers.

        :param bridge: the name of one that has to be there.
        :raises VswitchUnavailable: saying what is wrong.
        """
        place = self.get_socket(bridge)
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(self._timeout)
                one.connect(place)
                # Both sides begin with that.
                if one.recv(_HELLO_LENGTH)[1:2] != _HELLO:
                    raise OSError('it does not speak OpenFlow')
        except OSError as e:
            raise exceptions.VswitchUnavailable(
                f'ovs-vswitchd cannot be reached at {place} ({e}): start '
                f'Open vSwitch on this node, make its directory available '
                f'here (in a container, mount /run/openvswitch), or correct '
                f'[hmsync_distributor] openvswitch_rundir.') from e

    def get_boot(self, bridge):
        """Return what another run of ovs-vswitchd has another of.

        :param bridge: its name.
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

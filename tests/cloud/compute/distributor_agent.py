# SPDX-License-Identifier: Apache-2.0

"""What an instance of the image of distributors runs.

Run as a script, in place of amphora-agent: it starts Open vSwitch, which the
instance has for itself, and is the distributor then, with the configuration
that came with its user data.
"""

import os
import subprocess

_RUN = '/run/openvswitch'
_SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
_STATE = '/var/lib/octavia-hmsync/distributor'
_CONF = '/etc/octavia-hmsync/distributor.conf'
# Of a kernel that has no data path of Open vSwitch.
_MORE_CONF = '/etc/octavia-hmsync/netdev.conf'
_PROGRAM = 'octavia-hmsync-distributor'


def _start_open_vswitch():
    if os.path.exists(_RUN):
        # It outlives the distributor.
        return
    os.makedirs(_RUN)
    database, remote = f'{_RUN}/conf.db', f'unix:{_RUN}/db.sock'
    for command in (
            ('ovsdb-tool', 'create', database, _SCHEMA),
            ('ovsdb-server', database, f'--remote=p{remote}'),
            ('ovs-vsctl', f'--db={remote}', '--no-wait', 'init'),
            ('ovs-vswitchd', remote)):
        name = command[0]
        daemon = () if name in ('ovsdb-tool', 'ovs-vsctl') else (
            '--detach', '--no-chdir', f'--pidfile={_RUN}/{name}.pid',
            f'--unixctl={_RUN}/{name}.ctl', f'--log-file=/var/log/{name}.log')
        subprocess.run([*command, *daemon], check=True,
                       stdin=subprocess.DEVNULL)


def main():
    os.environ['OVS_RUNDIR'] = os.environ['OVS_DBDIR'] = _RUN
    _start_open_vswitch()
    os.makedirs(_STATE, exist_ok=True)
    with open(_MORE_CONF, 'w') as conf:
        conf.write('[hmsync_distributor]\ndatapath_type = netdev\n')
    os.execvp(_PROGRAM, [_PROGRAM, '--config-file', _CONF, '--config-file',
                         _MORE_CONF])


if __name__ == '__main__':
    main()

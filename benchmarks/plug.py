# SPDX-License-Identifier: Apache-2.0

"""Plugs a port into the Open vSwitch of this node, in one of two ways.

::

    python -m benchmarks.plug hmsync|ovsdbapp unix:/run/openvswitch/db.sock

is a process of its own for benchmarks.libraries. Each way imports what it
needs, and nothing else.
"""

import sys

NAME = 'o-hm0'
_PORT = '00000000-0000-0000-0000-000000000001'
_MAC = 'fa:16:3e:00:00:01'
_MTU = 1442


def plug(connection):
    """Plug as the plugin does."""
    from octavia_hmsync.network import ovs

    ovs.Vswitch('br-int', connection).plug(NAME, _PORT, _MAC, _MTU, 'node')


def plug_by_library(connection):
    """Do the same with ovsdbapp, and none of the checks."""
    from ovsdbapp.backend.ovs_idl import connection as backend
    from ovsdbapp.schema.open_vswitch import impl_idl

    api = impl_idl.OvsdbIdl(backend.Connection(backend.OvsdbIdl.from_server(
        connection, 'Open_vSwitch',
        helper_tables=('Open_vSwitch', 'Bridge', 'Port', 'Interface')),
        timeout=10))
    with api.transaction(check_error=True) as transaction:
        transaction.add(api.add_port('br-int', NAME, may_exist=True))
        transaction.add(api.db_set(
            'Interface', NAME, ('type', 'internal'), ('mac', _MAC),
            ('mtu_request', _MTU), ('external_ids', {
                'iface-id': _PORT, 'attached-mac': _MAC})))


WAYS = {'hmsync': plug, 'ovsdbapp': plug_by_library}

if __name__ == '__main__':
    WAYS[sys.argv[1]](sys.argv[2])

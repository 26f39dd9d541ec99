# SPDX-License-Identifier: Apache-2.0

"""Bridges of VIPs, each connected to the integration bridge.

    br-int [hmiXXXXXXXXXXX] ---- patch ---- [hmpXXXXXXXXXXX] hmbXXXXXXXXXXX

The end in the integration bridge has the external_ids by which the agent of
the node knows the Neutron port, as the trunk bridges of Neutron have them.
"""

import dataclasses
import threading

from ovsdbapp import exceptions as ovsdbapp_exceptions

from octavia_hmsync.distributor.ovs import database
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync import exceptions

# Of a bridge: the VIP that it is for; what has been announced of it.
_VIP = 'hmsync-vip'
_ANNOUNCED = 'hmsync-announced'
# The kernel takes 15 characters.
_ID_LENGTH = 11
_PROTOCOLS = ['OpenFlow10', 'OpenFlow13', 'OpenFlow15']
_OFPORT = 1
# Of the row that bounds the tables of all bridges of VIPs, each by itself.
_TABLE = 'hmsync-pins'
# Seconds; Open vSwitch's own default.
_MAX_IDLE = 10


@dataclasses.dataclass(frozen=True)
class Names:
    """What belongs to a VIP in Open vSwitch.

    :param port: the patch port in there.
    :param peer: the patch port in the integration bridge.
    """

    bridge: str
    port: str
    peer: str

    @classmethod
    def of(cls, vip_id):
        """Return the names for the id of a VIP."""
        short = vip_id.replace('-', '')[:_ID_LENGTH]
        return cls(f'hmb{short}', f'hmp{short}', f'hmi{short}')


class Bridges:
    """The bridges of VIPs on this node.

    It connects when it is used first, so that a process may fork before. All
    methods raise VswitchUnavailable, saying what is wrong.
    """

    def __init__(self, conf):
        self._options = conf.hmsync_distributor
        self._bound = self._options.max_pins
        self._lock = threading.Lock()
        self._api = None
        # Of the integration bridge, and of which state of the database.
        self._ports: frozenset[str] = frozenset()
        self._ports_of = None

    def ensure(self, vip_id, port):
        """Ensure the bridge of a VIP; return the OpenFlow port of its port."""
        api, names = self._connect(), Names.of(vip_id)
        bridge = self._find('Bridge', names.bridge)
        if bridge and bridge.external_ids.get(_VIP) != vip_id:
            raise exceptions.VswitchUnavailable(
                f'The bridge {names.bridge}, which the VIP {vip_id} needs, '
                f'is there for something else: delete it ("ovs-vsctl del-br '
                f'{names.bridge}").')
        self._check_integration_bridge()
        inner = self._get_inner(names, port)
        commands = [
            api.add_br(names.bridge, may_exist=True,
                       datapath_type=self._options.datapath_type),
            api.db_set('Bridge', names.bridge, ('fail_mode', 'secure'),
                       ('protocols', _PROTOCOLS),
                       ('external_ids', {_VIP: vip_id}),
                       ('other_config', {'disable-in-band': 'true'})),
            *self._make_plug(names, inner, port),
            *self._make_bound(names)]
        if not (self._is_bridge_there(names, inner) and
                self._is_plugged(names, inner, port)):
            self._commit(commands)
        found = self._find('Interface', inner)
        number = found and found.ofport
        if not number or number[0] < 0:
            error = found and found.error
            raise exceptions.VswitchUnavailable(
                f'Open vSwitch did not make the port {inner} in time '
                f'({error[0] if error else "ovs-vswitchd does not answer"}): '
                f'see the log of ovs-vswitchd.')
        return number[0]

    def _get_inner(self, names, port):
        """Return the name of the port by which the bridge is connected."""
        return names.port

    def _make_plug(self, names, inner, port):
        """Return the commands that connect the bridge."""
        api = self._connect()
        return [
            api.add_port(names.bridge, inner, may_exist=True),
            api.db_set('Interface', inner, ('type', 'patch'),
                       ('options', {'peer': names.peer}),
                       ('ofport_request', _OFPORT)),
            api.add_port(self._options.integration_bridge, names.peer,
                         may_exist=True),
            api.db_set('Interface', names.peer, ('type', 'patch'),
                       ('options', {'peer': inner}),
                       ('external_ids', {
                           'iface-id': port.id, 'attached-mac': port.mac,
                           'iface-status': 'active',
                           # neutron-ovs-cleanup would delete it, at boot.
                           'skip_cleanup': 'true'}))]

    def _is_bridge_there(self, names, inner):
        bridge = self._find('Bridge', names.bridge)
        found = self._find('Interface', inner)
        return bool(
            bridge and found and found.ofport and
            bridge.datapath_type == self._options.datapath_type and
            bridge.fail_mode == ['secure'] and
            set(sharing.LEARNED) <= set(bridge.flow_tables) and
            any(one.name == inner for one in bridge.ports))

    def _make_bound(self, names):
        """Return the commands that bound what its flows may learn."""
        api = self._connect()
        rows = self._find_bounds()
        commands, bound = [], rows and rows[0]
        if not bound:
            bound = api.db_create(
                'Flow_Table', name=_TABLE, flow_limit=self._bound,
                # The oldest would have to go for each new one, else.
                overflow_policy='refuse')
            commands.append(bound)
        return [*commands, api.db_set(
            'Bridge', names.bridge, ('flow_tables', dict.fromkeys(
                sharing.LEARNED, bound)))]

    def _find_bounds(self):
        api = self._connect()
        with api.ovsdb_connection.lock:
            return [row for row in api.tables['Flow_Table'].rows.values()
                    if row.name == [_TABLE]]

    def bound(self, flows):
        """Bound what the flows of each VIP may learn, in each table.

        What is there stays, if there is more.

        :param flows: how many flows; 0 for none from now on.
        """
        self._bound = flows
        commands = [
            self._connect().db_set('Flow_Table', row.uuid,
                                   ('flow_limit', flows))
            for row in self._find_bounds() if row.flow_limit != [flows]]
        if commands:
            self._commit(commands)

    def _is_plugged(self, names, inner, port):
        """Tell whether what _make_plug() would do is done."""
        inner = self._find('Interface', inner)
        outer = self._find('Interface', names.peer)
        return bool(
            inner and outer and
            names.peer in self._list_ports() and
            (inner.type, outer.type) == ('patch', 'patch') and
            inner.options == {'peer': names.peer} and
            outer.options == {'peer': names.port} and
            outer.external_ids.get('iface-id') == port.id and
            outer.external_ids.get('attached-mac') == port.mac)

    def _list_ports(self):
        """Return the names of the ports of the integration bridge.

        The IDL makes an object of each of them, each time.
        """
        connection = self._connect().ovsdb_connection
        ours = self._find('Bridge', self._options.integration_bridge)
        with connection.lock:
            if self._ports_of != connection.idl.change_seqno:
                self._ports = frozenset(port.name for port in ours.ports)
                self._ports_of = connection.idl.change_seqno
            return self._ports

    def remove(self, vip_id):
        """Delete the bridge of a VIP, and what connects it.

        :returns: True if there was one.
        """
        api, names = self._connect(), Names.of(vip_id)
        bridge = self._find('Bridge', names.bridge)
        if bridge and bridge.external_ids.get(_VIP) != vip_id:
            return False
        there = bridge or self._find('Interface', names.peer)
        if there:
            self._commit([api.del_port(names.peer, if_exists=True),
                          api.del_br(names.bridge, if_exists=True)])
        return bool(there)

    def has(self, vip_id):
        return self._find('Bridge', Names.of(vip_id).bridge) is not None

    def list_vips(self):
        """Return the ids of all VIPs that have a bridge, sorted."""
        api = self._connect()
        with api.ovsdb_connection.lock:
            return sorted(
                row.external_ids[_VIP]
                for row in api.tables['Bridge'].rows.values()
                if _VIP in row.external_ids)

    def get_announced(self, vip_id):
        """Return what set_announced() was given, '' if nothing."""
        self._connect()
        bridge = self._find('Bridge', Names.of(vip_id).bridge)
        return bridge.external_ids.get(_ANNOUNCED, '') if bridge else ''

    def set_announced(self, vip_id, announced):
        """Remember what has been announced of a VIP, over a restart."""
        self._commit([self._connect().db_set(
            'Bridge', Names.of(vip_id).bridge,
            ('external_ids', {_ANNOUNCED: announced}))], database.note)

    def get_max_idle(self):
        """Return the seconds for which its cache has what has no packets."""
        api = self._connect()
        with api.ovsdb_connection.lock:
            row, = api.tables['Open_vSwitch'].rows.values()
            text = row.other_config.get('max-idle', '')
        return int(text) / 1000 if text.isdigit() and int(text) else _MAX_IDLE

    def check(self):
        """Check that Open vSwitch can be used.

        :returns: its version, 'unknown' if its start script set none.
        """
        api = self._connect()
        self._check_integration_bridge()
        with api.ovsdb_connection.lock:
            row, = api.tables['Open_vSwitch'].rows.values()
            return row.ovs_version[0] if row.ovs_version else 'unknown'

    def _check_integration_bridge(self):
        name = self._options.integration_bridge
        bridge = self._find('Bridge', name)
        if bridge is None:
            raise exceptions.VswitchUnavailable(
                f'Open vSwitch has no bridge {name}: start the agent of this '
                f'node, ovn-controller or neutron-openvswitch-agent, which '
                f'makes it, or correct [hmsync_distributor] '
                f'integration_bridge.')
        kind = bridge.datapath_type or 'system'
        if kind != self._options.datapath_type:
            raise exceptions.VswitchUnavailable(
                f'The bridge {name} has data path {kind}, and what is to be '
                f'connected to it {self._options.datapath_type}: set '
                f'[hmsync_distributor] datapath_type = {kind}.')

    def _connect(self):
        with self._lock:
            if self._api is None:
                self._api = database.connect(
                    self._options.ovsdb_connection,
                    self._options.openvswitch_timeout)
            return self._api

    def _find(self, table, name):
        """Return a row by its name, None if there is none."""
        api = self._connect()
        with api.ovsdb_connection.lock:
            return api.lookup(table, name, None)

    def _commit(self, commands, commit=database.commit):
        try:
            commit(self._connect(), commands)
        except exceptions.VswitchUnavailable:
            raise
        except Exception as e:  # ovsdbapp raises RuntimeError and others.
            # It has all the commands in its message.
            late = isinstance(e, ovsdbapp_exceptions.TimeoutException)
            reason = (f'no answer within {self._options.openvswitch_timeout} '
                      f's' if late else ' '.join(str(e).split()))
            raise exceptions.VswitchUnavailable(
                f'Open vSwitch did not do what its database was told '
                f'({reason}): see the logs of ovsdb-server and '
                f'ovs-vswitchd.') from e

# SPDX-License-Identifier: Apache-2.0

"""The load balancers of clusters, in OVN's northbound database."""

from collections import abc
import dataclasses

from ovsdbapp.backend.ovs_idl import command
from ovsdbapp import exceptions as ovsdbapp_exceptions

from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.cluster.distribution.ovn import plan as plan_
from octavia_hmsync import exceptions

# Neutron's names.
_SWITCH = 'neutron-{}'
_CIDRS = 'neutron:cidrs'
_FLOATING = 'neutron:port_fip'
_OWNER = 'neutron:device_owner'
_VIRTUAL = 'virtual'


@dataclasses.dataclass(frozen=True)
class Scene:
    """What OVN has of the network of a VIP.

    :param switch: the name of the switch; None if OVN has no such network.
    :param links: all ports of routers.
    :param is_silent: whether no port has the VIP as its own address.
    :param floating: the floating IP, or None.
    :param addresses: {port: its own addresses}, of the ports asked for.
    """

    switch: str | None
    links: tuple[plan_.Link, ...]
    is_silent: bool
    floating: str | None
    addresses: dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class State:
    """What OVN has of a cluster.

    :param rows: the number of its load balancers.
    :param open: ports that are open, see plan.choose_open().
    """

    version: int
    rows: int
    open: frozenset[int] = frozenset()


class Northbound:
    """Reads and writes. Threads may share it.

    Every method raises DistributorUnreachable, with one line that says what
    to do, if the database does not answer.
    """

    def __init__(self, conf):
        self._conf = conf

    def read(self, network_id, vip_port_id, port_ids: abc.Iterable[str]):
        """Return the Scene of a VIP, with the addresses of some ports."""
        return self._execute(_Read, _SWITCH.format(network_id), vip_port_id,
                             list(port_ids))

    def get_change(self):
        """Return a number that differs after any change."""
        return self._execute(_GetChange)

    def apply(self, cluster_id, version, wanted):
        """Create, change and delete the load balancers of a cluster.

        :param wanted: (plan.Balancer, plan.Places or None) pairs; without
                       places it is at no switch and no router.
        :returns: whether something was changed.
        :raises DistributorRefused: if OVN has a newer version.
        """
        return self._execute(_Apply, cluster_id, version, list(wanted))

    def set_open(self, cluster_id, ports):
        """Set which ports of a cluster are open; all others are not.

        :returns: whether that was not so before.
        """
        return self._execute(_SetOpen, cluster_id, frozenset(ports))

    def remove(self, cluster_id):
        self._execute(_Remove, cluster_id)

    def list(self):
        """Return {id of a cluster: State}, of all clusters in OVN."""
        return self._execute(_List)

    def _execute(self, kind, *arguments):
        remote = connections.get_remote(self._conf, connections.NORTHBOUND)
        api = connections.connect(self._conf, connections.NORTHBOUND)
        if not connections.is_connected(api):
            # The copy may be old, and a change that it has already would
            # count as done.
            raise connections.unreachable(connections.NORTHBOUND, remote,
                                          'the connection is lost')
        try:
            return kind(api, *arguments).execute(check_error=True,
                                                 log_errors=False)
        except exceptions.HMSyncException:
            raise
        except ovsdbapp_exceptions.TimeoutException as e:
            raise connections.unreachable(connections.NORTHBOUND, remote,
                                          'no answer in time') from e
        except Exception as e:  # RuntimeError and others.
            raise connections.unreachable(connections.NORTHBOUND, remote,
                                          e) from e


class _Read(command.ReadOnlyCommand):
    READ_ONLY = True

    def __init__(self, api, switch, vip_port_id, port_ids):
        super().__init__(api)
        self._switch = switch
        self._vip_port_id = vip_port_id
        self._port_ids = port_ids

    def run_idl(self, txn):
        switch = self.api.lookup('Logical_Switch', self._switch, default=None)
        vip = self.api.lookup('Logical_Switch_Port', self._vip_port_id,
                              default=None)
        ports = {port_id: self.api.lookup('Logical_Switch_Port', port_id,
                                          default=None)
                 for port_id in self._port_ids}
        self.result = Scene(
            switch and self._switch, _get_links(self.api),
            vip is not None and (vip.type == _VIRTUAL or not vip.addresses),
            vip and vip.external_ids.get(_FLOATING),
            {port_id: plan_.read_cidrs(port.external_ids.get(_CIDRS, ''))
             for port_id, port in ports.items() if port is not None})


class _GetChange(command.ReadOnlyCommand):
    READ_ONLY = True

    def run_idl(self, txn):
        self.result = self.api.idl.change_seqno


def _get_links(api):
    """Return all Links, cached until the next change."""
    known = getattr(api, 'known_links', None)
    if known is None or known[0] != api.idl.change_seqno:
        known = api.idl.change_seqno, tuple(_find_links(api))
        api.known_links = known
    return known[1]


def _find_links(api):
    routers = {port.name: (router.name, port)
               for router in api.tables['Logical_Router'].rows.values()
               for port in router.ports}
    for switch in api.tables['Logical_Switch'].rows.values():
        for port in switch.ports:
            if port.type != 'router':
                continue
            router, peer = routers.get(port.options.get('router-port'),
                                       (None, None))
            if peer is not None:
                yield plan_.Link(
                    switch.name, router, tuple(peer.networks),
                    port.external_ids.get(_OWNER) == plan_.GATEWAY_OWNER)


def _find(api, cluster_id):
    """Return the rows of a cluster; two processes may have made one each."""
    return sorted(
        (row for row in api.tables['Load_Balancer'].rows.values()
         if row.external_ids.get(plan_.CLUSTER_KEY) == cluster_id),
        key=lambda row: row.uuid)


def _get_version(row):
    text = row.external_ids.get(plan_.VERSION_KEY, '')
    return int(text) if text.isdigit() else 0


def _get_open(row):
    return plan_.read_ports(row.external_ids.get(plan_.OPEN_KEY, ''))


class _List(command.ReadOnlyCommand):
    READ_ONLY = True

    def run_idl(self, txn):
        found: dict[str, State] = {}
        for row in self.api.tables['Load_Balancer'].rows.values():
            cluster_id = row.external_ids.get(plan_.CLUSTER_KEY)
            if cluster_id:
                before = found.get(cluster_id, State(0, 0))
                found[cluster_id] = State(
                    max(before.version, _get_version(row)), before.rows + 1,
                    before.open | _get_open(row))
        self.result = found


class _Remove(command.BaseCommand):

    def __init__(self, api, cluster_id):
        super().__init__(api)
        self._cluster_id = cluster_id

    def run_idl(self, txn):
        # OVSDB deletes references to it and its health checks, too.
        for row in _find(self.api, self._cluster_id):
            row.delete()


def _set_checks(api, txn, row, wanted, is_old):
    """Give a load balancer its health checks.

    :param wanted: keys of its vips.
    :returns: whether it did not have them.
    """
    there = {check.vip: check for check in row.health_check} if is_old else {}
    if is_old and there.keys() == wanted:
        return False
    checks = []
    for key in sorted(wanted):
        check = there.get(key)
        if check is None:
            check = txn.insert(api.tables['Load_Balancer_Health_Check'])
            check.vip = key
            check.options = dict(plan_.CHECK)
        checks.append(check)
    # OVSDB deletes those without a load balancer.
    row.health_check = checks
    return True


class _SetOpen(command.BaseCommand):

    def __init__(self, api, cluster_id, ports):
        super().__init__(api)
        self._cluster_id = cluster_id
        self._ports = ports

    def run_idl(self, txn):
        self.result = False
        for row in _find(self.api, self._cluster_id):
            if (row.name != plan_.get_name(self._cluster_id) or
                    _get_open(row) == self._ports):
                continue
            # Another process may change its members meanwhile.
            row.verify('external_ids')
            row.verify('vips')
            row.setkey('external_ids', plan_.OPEN_KEY,
                       plan_.write_ports(self._ports))
            _set_checks(self.api, txn, row, plan_.find_checks(
                row.vips, row.ip_port_mappings, self._ports), True)
            self.result = True


class _Apply(command.BaseCommand):

    def __init__(self, api, cluster_id, version, wanted):
        super().__init__(api)
        self._cluster_id = cluster_id
        self._version = version
        self._wanted = wanted

    def run_idl(self, txn):
        self.result = False
        rows: dict[str | None, list] = {}
        for row in _find(self.api, self._cluster_id):
            # The transaction fails if another process changes it meanwhile.
            row.verify('external_ids')
            if _get_version(row) > self._version:
                raise exceptions.DistributorRefused(
                    f'OVN has version {_get_version(row)} of the cluster '
                    f'{self._cluster_id}, which is newer than '
                    f'{self._version}: housekeeping raises it by itself.',
                    _get_version(row))
            rows.setdefault(row.name, []).append(row)
        for balancer, places in self._wanted:
            row, *others = rows.pop(balancer.name, [None])
            rows[None] = rows.get(None, []) + others
            is_old = row is not None
            if not is_old:
                row = txn.insert(self.api.tables['Load_Balancer'])
                row.name = balancer.name
                self.result = True
            self._change(txn, row, balancer, is_old)
            for table, names in (
                    ('Logical_Switch', places.switches if places else ()),
                    ('Logical_Router', places.routers if places else ())):
                self._attach(table, names, row)
        for row in (row for found in rows.values() for row in found):
            row.delete()
            self.result = True

    def _change(self, txn, row, balancer, is_old):
        if is_old and plan_.OPEN_KEY in row.external_ids:
            # Only set_open() changes that.
            balancer = dataclasses.replace(
                balancer, checks=plan_.find_checks(
                    balancer.vips, balancer.ip_port_mappings, _get_open(row)),
                external_ids={
                    **balancer.external_ids,
                    plan_.OPEN_KEY: row.external_ids[plan_.OPEN_KEY]})
        for name in ('vips', 'options', 'ip_port_mappings', 'external_ids'):
            self._set(row, name, getattr(balancer, name), is_old)
        self._set(row, 'selection_fields', list(balancer.selection_fields),
                  is_old)
        if _set_checks(self.api, txn, row, balancer.checks, is_old):
            self.result = True

    def _set(self, row, name, value, is_old):
        if is_old and getattr(row, name) == value:
            return
        setattr(row, name, value)
        self.result = True

    def _attach(self, table, names, row):
        for one in self.api.tables[table].rows.values():
            has_it = row.uuid in {each.uuid for each in one.load_balancer}
            if has_it and one.name not in names:
                one.delvalue('load_balancer', row.uuid)
                self.result = True
            elif one.name in names and not has_it:
                one.addvalue('load_balancer', row.uuid)
                self.result = True

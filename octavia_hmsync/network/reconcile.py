# SPDX-License-Identifier: Apache-2.0

"""Repairs changes by others in the management network and its ports of nodes.

A lost port is made again even if its node is down: otherwise another port
might get an address to which amphorae still send.
"""

import dataclasses

from openstack import connection as sdk_connection
from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa

from octavia_hmsync import cloud
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network import changes as network_changes
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import network
from octavia_hmsync.network import parts
from octavia_hmsync.network import port as node_port
from octavia_hmsync.network import port_keeper
from octavia_hmsync.sync.db import amphora as amphora_repo

LOG = logging.getLogger(__name__)


def repair_node_ports(look):
    """Repair nodes' ports; raise the first error after a look at all."""
    known = port_repo.get_all(look.engine)
    if not known:
        # This network has no ports of nodes.
        return
    ports = node_port.NodePorts(look.conf, look.connection, look.ids)
    found = ports.get_all()
    keeper = port_keeper.PortKeeper(look.conf, look.engine, ports,
                                    patience=0)
    by_id = {port.id: port for port in found}
    problems = []
    for row in known:
        try:
            port = (by_id.get(row.port_id) or
                    ports.find_known(row.host, row.port_id))
            if port is None and ports.get(row.port_id):
                look.notes.append(
                    f'the port {row.port_id} of {row.host} was left in '
                    f'another one, which was deleted: run "octavia-hmsync '
                    f'network port plug" there, and delete it then.')
                continue
            wrong = _find_wrong(row, port, ports)
            if not wrong:
                continue
            look.changes.change(
                f'see to the port of the node {row.host}, which {wrong}',
                lambda row=row: keeper.ensure(row.host, row.binding_host,
                                              is_known=True))
        except exceptions.PortBusy:
            # Its node is at work on it, or it was just deleted.
            continue
        except exceptions.HMSyncException as e:
            problems.append(e)
    # Made by a node meanwhile, or left by a process that died.
    hosts = {row.host for row in port_repo.get_all(look.engine)}
    look.notes += [
        f'the port {port.id} of {port.host} is not recorded: run '
        f'"octavia-hmsync network port plug" there, or "octavia-hmsync '
        f'network port delete {port.host}".'
        for port in found if port.host not in hosts]
    if problems:
        raise problems[0]


def _find_wrong(row, port, ports):
    """Return the differences of a port in words, '' without any."""
    if port is None:
        return 'is gone'
    wrong = list(ports.get_differences(port, row.binding_host))
    if node_port.NOT_BOUND in wrong and not ports.may_bind(row.binding_host):
        # The port of a node that is down cannot be bound.
        wrong.remove(node_port.NOT_BOUND)
    if port.mac != row.mac:
        wrong.append(f'has another MAC address, {port.mac}')
    if port.ip_addresses != row.ip_addresses:
        wrong.append(f'has other addresses, '
                     f'{", ".join(port.ip_addresses) or "none"}')
    return ' and '.join(wrong)


@dataclasses.dataclass
class Look:
    """One look at a management network, under its lock.

    :param ids: the recorded network_repo.Ids; a repair that makes a part again
                updates its id.
    :param changes: a changes.Changes; repairs make their changes through it,
                    so that they are logged and counted.
    """

    conf: cfg.ConfigOpts
    engine: sa.Engine
    connection: sdk_connection.Connection
    ids: network_repo.Ids
    changes: network_changes.Changes
    notes: list


def repair_network(look):
    """Repair the network, its subnet, the groups and their rules."""
    name = look.conf[network_conf.GROUP].network_name
    result = network.Ensurance(
        look.conf, look.connection, network_repo.get_row(look.engine, name),
        look.changes, is_repair=True).run()
    look.ids = result.to_ids()
    look.notes += result.notes


def repair_amphora_ports(look):
    """Restore the security group of amphorae.

    Without it the controllers' group rejects their heartbeats, and their
    agents cannot be reached.
    """
    group_id = look.ids.amphora_security_group_id
    addresses = {row.lb_network_ip: row.id
                 for row in amphora_repo.get_rows(look.engine)}
    proxy = look.connection.network
    with cloud.reported(look.conf, 'look for the ports of amphorae'):
        ports = list(proxy.ports(network_id=look.ids.network_id,
                                 limit=parts.PAGE))
    for port in ports:
        amphora_id = next(
            (addresses[ip['ip_address']] for ip in port.fixed_ips
             if ip['ip_address'] in addresses), None)
        # An amphora in an older network may have the same address.
        if (amphora_id is None or port.is_port_security_enabled is False or
                port.device_owner == node_port.DEVICE_OWNER or
                group_id in port.security_group_ids):
            continue
        look.changes.change(
            f'give the port {parts.describe(port)} of amphora {amphora_id} '
            f'its security group {group_id} back',
            lambda port=port: proxy.update_port(
                port.id, security_group_ids=[*port.security_group_ids,
                                             group_id]))


# Each is called with a Look, in this order.
REPAIRS = [repair_network, repair_amphora_ports,
           repair_node_ports]


class Reconciler:
    """Looks once per run_once(), on one housekeeper at a time."""

    def __init__(self, conf, engine):
        self._conf = conf
        self._engine = engine
        self._connection = None
        self._noted = set()

    def run_once(self):
        """Look, if there is a network and it is time.

        :returns: how many repairs were made.
        :raises CloudRefused: if Neutron says no; earlier repairs stay.
        :raises CloudUnavailable: if it does not answer.
        """
        options = self._conf[network_conf.GROUP]
        claims = network_changes.make_claims(self._conf, self._engine)
        owner = claims.make_owner()
        if not network_repo.claim_unreconciled(
                self._engine, options.network_name, owner, claims.expiry,
                options.reconcile_interval):
            return 0
        held = claims.hold(options.network_name, owner)
        try:
            return self._look(held)
        finally:
            held.release()

    def _look(self, held):
        if self._connection is None:
            self._connection = cloud.connect(self._conf)
        name = held.key
        row = network_repo.get_row(self._engine, name)
        look = Look(self._conf, self._engine, self._connection,
                    network_repo.get_ids(self._engine, name),
                    network_changes.Changes(self._conf, before=held.look),
                    [])
        problems = []
        for repair in REPAIRS:
            try:
                repair(look)
            except exceptions.HMSyncException as e:
                # The other repairs may still succeed.
                problems.append(e)
        self._tell(look)
        network_repo.record(self._engine, name, held.owner, look.ids,
                            row.repairs + len(look.changes.done))
        if problems:
            self._connection = None
            raise problems[0]
        return len(look.changes.done)

    def _tell(self, look):
        name = self._conf[network_conf.GROUP].network_name
        for done in look.changes.done:
            LOG.warning('The management network %s was not as it should be. '
                        'Put right: %s.', name, done)
        for note in look.notes:
            if note not in self._noted:
                LOG.warning('The management network %s: %s', name, note)
        self._noted = set(look.notes)

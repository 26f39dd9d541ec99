# SPDX-License-Identifier: Apache-2.0

"""Repairs changes by others in the ports of nodes.

A lost port is made again even if its node is down: otherwise another port
might get an address to which amphorae still send.
"""

from octavia_hmsync import exceptions
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import port as node_port
from octavia_hmsync.network import port_keeper


def repair_node_ports(look):
    """Repair the ports of nodes; the nodes then adapt their interfaces.

    :param look: a reconcile.Look.
    :raises HMSyncException: the first error, after a look at all ports.
    """
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

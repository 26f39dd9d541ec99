# SPDX-License-Identifier: Apache-2.0

"""What uses the port of a node, or may still send to its address."""

from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network.db import used_lists as used_repo
from octavia_hmsync.network import port as node_port
from octavia_hmsync.network import retention as port_retention
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.rules import member as mem


def is_published(conf, engine, ip_addresses):
    """Tell whether a list for amphorae has an address of a port."""
    opts = conf.hmsync
    lists = [keeper_repo.get_pinned(
        engine, opts.offline_after + opts.removal_delay)]
    lists += [g.addresses for g in (
        generation_repo.get_newest(engine),
        generation_repo.get_last_good(engine)) if g]
    return any(port_retention.has_address(ip_addresses, addresses)
               for addresses in lists)


def get_senders(engine, ip_addresses):
    """Return sorted ids of amphorae that may send to a port, now or later."""
    return sorted(
        amphora_id for amphora_id, sender in
        used_repo.get_senders(engine).items()
        if port_retention.may_send(ip_addresses, sender))


def describe_users(conf, engine, port):
    """Return in words what uses a port."""
    users = []
    if port.status == node_port.ACTIVE:
        users.append(f'interface of the node {port.binding_host}')
    users += [f'health manager {m.host}' for m in hm_repo.get_all(engine)
              if m.host == port.host and mem.effective_status(
                  m.status, m.keepalive_age,
                  conf.hmsync.offline_after) != mem.OFFLINE]
    known = port_repo.get(engine, port.host)
    # Amphorae send to the address that they were told, even if it changed.
    ip_addresses = {*port.ip_addresses, *(known.ip_addresses if known else ())}
    if is_published(conf, engine, ip_addresses):
        users.append('list of all amphorae')
    senders = get_senders(engine, ip_addresses)
    if senders:
        users.append(f'{len(senders)} amphorae that may send there')
    return users

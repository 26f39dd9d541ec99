# SPDX-License-Identifier: Apache-2.0

"""What uses the port of a node, or may still send to its address.

The ports of nodes that are gone are deleted once no amphora sends there.
"""

import time

from oslo_log import log as logging

from octavia_hmsync import addresses as addr
from octavia_hmsync import cloud
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network.db import used_lists as used_repo
from octavia_hmsync.network import port as node_port
from octavia_hmsync.network import port_keeper
from octavia_hmsync.network import retention as rules
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import steadiness

LOG = logging.getLogger(__name__)


def is_published(conf, engine, ip_addresses):
    """Tell whether a list for amphorae has an address of a port."""
    opts = conf.hmsync
    lists = [keeper_repo.get_pinned(
        engine, opts.offline_after + opts.removal_delay)]
    lists += [g.addresses for g in (
        generation_repo.get_newest(engine),
        generation_repo.get_last_good(engine)) if g]
    return any(rules.has_address(ip_addresses, addresses)
               for addresses in lists)


def get_senders(engine, ip_addresses):
    """Return sorted ids of amphorae that may send to a port, now or later."""
    return sorted(
        amphora_id for amphora_id, sender in
        used_repo.get_senders(engine).items()
        if rules.may_send(ip_addresses, sender))


def describe_users(conf, engine, port):
    """Return in words what uses a port."""
    users = []
    if port.status == node_port.ACTIVE:
        users.append(f'interface of the node {port.binding_host}')
    users += [f'health manager {m.host}' for m in hm_repo.get_all(engine)
              if m.host == port.host and not m.is_further and
              mem.effective_status(m.status, m.keepalive_age,
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


class PortRetention:
    """Looks at all ports once per run_once().

    Several housekeepers do no harm: the second finds nothing to delete.
    """

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._steadiness = steadiness.Steadiness()
        # The amphorae that were reported to hold the port of a host.
        self._named = {}

    def run_once(self):
        """Look once.

        :returns: the hosts whose ports were deleted, a list.
        :raises HMSyncException: if Neutron does not delete a port; raised
                                 after the other ports, unless it is down.
        """
        interval = self._conf[network_conf.GROUP].reconcile_interval
        now = self._clock()
        steady_for = self._steadiness.note(now, now, 2 * interval + 10)
        port_repo.set_registered(self._engine)
        left = [row for row in port_repo.get_all(self._engine)
                if self._is_left(row, steady_for)]
        hosts = {row.host for row in left}
        self._named = {host: ids for host, ids in self._named.items()
                       if host in hosts}
        deleted = []
        refusal = None
        for row in left:
            try:
                if self._is_free(row) and self._delete(row, steady_for):
                    deleted.append(row.host)
            except exceptions.CloudRefused as e:
                refusal = refusal or e
        if refusal:
            raise refusal
        return deleted

    def _is_left(self, row, steady_for):
        members = {m.host: m for m in hm_repo.get_all(self._engine)}
        return rules.is_left(
            row.is_registered, row.plugged_age, members.get(row.host),
            self._conf[network_conf.GROUP].port_retention,
            self._conf.hmsync.offline_after, steady_for)

    def _is_free(self, row):
        if is_published(self._conf, self._engine, row.ip_addresses):
            return False
        senders = get_senders(self._engine, row.ip_addresses)
        new = set(senders) - self._named.get(row.host, set())
        if new:
            self._named.setdefault(row.host, set()).update(new)
            LOG.warning(
                'The port of %s, %s, is kept though its node is gone: these '
                '%d amphorae may still send there, because they were not '
                'seen to use a list without it: %s. See "octavia-hmsync '
                'amphora list".', row.host, addr.join_list(row.ip_addresses),
                len(new), ', '.join(sorted(new)))
        return not senders

    def _delete(self, row, steady_for):
        name = self._conf[network_conf.GROUP].network_name
        ids = network_repo.get_ids(self._engine, name)
        if ids is None:
            # Deleted; the operator removes what still used it.
            return False
        ports = node_port.NodePorts(self._conf, cloud.connect(self._conf),
                                    ids)
        keeper = port_keeper.PortKeeper(self._conf, self._engine, ports,
                                        patience=0)

        def is_unchanged():
            now = port_repo.get(self._engine, row.host)
            return (now is not None and now.port_id == row.port_id and
                    now.ip_addresses == row.ip_addresses and
                    self._is_left(now, steady_for) and self._is_free(now))

        try:
            deleted = keeper.delete(row.host, is_unchanged)
        except exceptions.PortBusy:
            # Its node is back.
            return False
        for port_id in deleted:
            LOG.info('Deleted the port %s of %s in %s: its node is gone and '
                     'no amphora sends to %s any more.', port_id, row.host,
                     name, addr.join_list(row.ip_addresses))
        return bool(deleted)

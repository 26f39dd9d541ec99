# SPDX-License-Identifier: Apache-2.0

"""The requests that bring a load balancer to the members of a cluster.

See octavia_hmsync.amphora.listener_plan for what makes them fail.

The servers of pools are rotated, differently for each member: haproxy's round
robin begins with the first server of its configuration after each reload. The
members of a cluster are reloaded at the same moment, and would all send their
requests to the first server, then to the second one, and so on in lockstep.
"""

import copy
import hashlib
import json
import time
import typing

from octavia_hmsync.amphora import listener_plan
from octavia_hmsync.amphora import listeners
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.members import certificate_files
from octavia_hmsync.cluster.members import own as own_
from octavia_hmsync.cluster.members import silent_vip
from octavia_hmsync.cluster.members import ticket_keys
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora_driver as compat_driver


def rotate_servers(shown: typing.Any, slot: int | None) -> None:
    """Rotate the servers of the pools of a load balancer.

    Pools stay as they are if the order decides which server gets a client: by
    a hash of its address, or by a stick table, where haproxy may know servers
    by their number.

    :param shown: of peers.show(); its listeners are changed in place, their
                  pools, which members share, are copied.
    :param slot: of the member; None for a standby.
    """
    if not slot:
        return
    for listener in shown.listeners:
        listener.pools = [_rotate(pool, slot) for pool in listener.pools]


def _rotate(pool, slot):
    persistence = pool.session_persistence
    if (pool.lb_algorithm not in compat.ALGORITHMS_IN_TURN or
            persistence and persistence.type in sizes.KEPT_BY_AMPHORAE or
            len(pool.members) < 2):
        return pool
    rotated = copy.copy(pool)
    members = pool.members
    first = slot % len(members)
    rotated.members = members[first:] + members[:first]
    return rotated


def are_statistics_kept(conf: typing.Any) -> bool:
    """Tell whether Octavia's rows tell which listeners amphorae report."""
    return 'stats_db' in conf.controller_worker.statistics_drivers


def leave_out_refused(conf: typing.Any, engine: typing.Any,
                      load_balancer: typing.Any) -> None:
    """Take the new listeners that members have refused out of its listeners.

    These are in ERROR, and no amphora has ever reported them, but others.
    With them each other change, and each new member, would fail, too. They are
    tried again when their owner changes them, as they are not in ERROR then.
    """
    statuses = {listener.id: listener.provisioning_status
                for listener in load_balancer.listeners}
    if compat.ERROR not in statuses.values() or not are_statistics_kept(conf):
        return
    reported = facts_repo.get_reported(engine, list(statuses))
    # Without any the load balancer was never made, and all are needed.
    if reported:
        load_balancer.listeners = [
            listener for listener in load_balancer.listeners
            if listener.id in reported or
            listener.provisioning_status != compat.ERROR]


class Plans:
    """Plans the requests for each member.

    :param without: a listener that is being deleted.
    :raises SecretsUnavailable: if a certificate of a listener cannot be
                                fetched.
    """

    def __init__(self, conf, load_balancer, without=None):
        self._keys = ticket_keys.make(conf, load_balancer.id)
        self._planner = compat_driver.Planner()
        self._load_balancer = load_balancer
        self._without = without
        self._own = own_.find(load_balancer)
        listener_plan.fetch_secrets(self._planner,
                                    self._get_listeners(load_balancer))

    def _get_listeners(self, load_balancer):
        return [listener for listener in load_balancer.listeners
                if self._without is None or listener.id != self._without.id]

    def get_served(self):
        """Return the ids of the listeners that haproxy must serve."""
        return listeners.find_served(self._load_balancer.enabled, {
            listener.id: listener.enabled
            for listener in self._get_listeners(self._load_balancer)
            if listener.protocol not in compat.LVS_PROTOCOLS})

    def _show(self, group, amphora_id, slot):
        shown = peers.show(self._load_balancer, group)
        rotate_servers(shown, slot)
        own_.show(shown, self._own.get(amphora_id))
        return shown

    def update(self, group, amphora_id, slot):
        """Return the plan of a Target that gets all listeners."""
        def plan(facts):
            shown = self._show(group, amphora_id, slot)
            return self._finish(listener_plan.plan(
                self._planner, shown, find_amphora(shown, amphora_id),
                facts), facts)
        return plan

    def delete(self, group, amphora_id, slot):
        """Return the plan of a Target that loses the listener."""
        def plan(facts):
            shown = self._show(group, amphora_id, slot)
            # Octavia's driver removes it from the list.
            listener = next(
                (each for each in shown.listeners
                 if each.id == self._without.id),
                None) or peers.show_listener(self._without, shown)
            requests = self._planner.plan('delete', listener,
                                          facts=facts).get(amphora_id, [])
            if any(request.path.endswith('/haproxy') for request in requests):
                listener_plan.check(
                    self._load_balancer,
                    self._get_listeners(self._load_balancer), requests)
            return self._finish(requests, facts,
                                self._planner.read_pems(self._without))
        return plan

    def _finish(self, requests, facts, pems=None):
        return certificate_files.rename(
            self._keys.add(requests, facts.info['haproxy_version'],
                           time.time()), self._load_balancer.id, pems)

    def digest(self):
        """Return a digest that identifies the configuration.

        It is the same for all members, whatever their haproxy. The keys of
        TLS session tickets do not count: they change with time, and that is
        no reason to configure a member again.
        """
        shown = peers.show(self._load_balancer, frozenset())
        shown.listeners = self._get_listeners(shown)
        nobody = compat_driver.make_nobody()
        requests = self._planner.plan('update_amphora_listeners', shown,
                                      nobody).get(nobody.id, [])
        return hashlib.sha256(json.dumps(
            [(request.method, request.path, request.body)
             for request in requests]).encode()).hexdigest()


def make_act(load_balancer, function):
    planner = compat_driver.Planner()

    def make_plan(_group, amphora_id, _slot):
        return lambda _facts: planner.plan(
            function, load_balancer, find_amphora(load_balancer, amphora_id),
            None).get(amphora_id, [])

    return make_plan


def find_amphora(load_balancer, amphora_id):
    return next((amphora for amphora in load_balancer.amphorae
                 if amphora.id == amphora_id and
                 amphora.status not in compat.DELETED_STATUSES), None)


def render_requests(vips, interface, mac, own=()):
    """Return the requests that give an amphora the VIPs.

    A keepalived that runs is reloaded.

    :param vips, interface, mac, own: as silent_vip.render() takes them.
    :returns: a list of compat's Request.
    """
    return [compat_driver.Request('PUT', 'vrrp/upload',
                                  silent_vip.render(vips, interface, mac,
                                                    own)),
            compat_driver.Request('PUT', 'vrrp/start')]

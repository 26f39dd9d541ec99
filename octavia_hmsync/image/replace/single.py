# SPDX-License-Identifier: Apache-2.0

"""The VIP of a SINGLE load balancer goes from one amphora to another one.

For a moment both have it, and serve: the neighbours go to the one that told
them last, so that none of them finds nobody.
"""

import functools

from oslo_log import log as logging

from octavia_hmsync.amphora import agent
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.image.replace import detection
from octavia_hmsync.image.replace import own_list
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)

# A neighbour may miss one of them; seconds between them.
_ANNOUNCEMENTS = 3
_ANNOUNCEMENT_INTERVAL = 0.7


class Single:
    """How amphorae of SINGLE load balancers are configured and switched.

    :param work: a Work.
    """

    def __init__(self, work):
        self._work = work
        # What Neutron said of each amphora, by its id: it may be away when
        # the VIP has to go back. The lock keeps it as it is.
        self._described = {}

    @staticmethod
    def get_holders(old_id, new_id, is_switched):
        """Return who may have the VIP."""
        return frozenset({new_id if is_switched else old_id})

    def configure(self, old, new):
        """Have the new amphora serve, without the VIP.

        :param old: Amphora of the evidence, None if it is gone.
        :param new: likewise.
        :raises SecretsUnavailable: if not all certificates are at hand.
        :raises AgentUnreachable, AgentRefused: if it does not.
        :raises CloudUnavailable: if Neutron does not tell what the switch
                                  will need.
        """
        own_list.give_of_zone(self._work, new)
        load_balancer = self._work.get_load_balancer()
        # Found out before the VIP moves, there and back.
        for each in filter(None, (old, new)):
            self._describe(load_balancer, each)
        self._work.get_listeners(load_balancer).update(
            load_balancer, _find(load_balancer, new.id))

    def switch(self, old, new):
        """Have the new amphora take the VIP, and the old one leave it.

        :param old: None if there is none any more.
        :raises AgentUnreachable, AgentRefused: if one of them does not.
        :raises NotProven: if an IPv6 VIP cannot be on both.
        """
        load_balancer = self._work.get_load_balancer()
        self._configure_agent(new)
        self._move(load_balancer, old, new)

    def back(self, old, new):
        """Have the old amphora take the VIP again.

        :param new: None if there is none any more.
        :raises AgentUnreachable, AgentRefused: if the old one does not.
        :raises NotProven: as switch().
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        if new is not None and not (new.lb_network_ip and new.vrrp_port_id):
            # It never came to where it could have had it.
            new = None
        self._move(self._work.get_load_balancer(), new, old,
                   is_giver_needed=False)

    def leave(self, amphora):
        """Have an amphora that is to go leave the VIP.

        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        load_balancer = self._work.get_load_balancer()
        agent_ = self._work.agent_of(amphora)
        if agent_.holds(load_balancer.vip.ip_address):
            agent_.release_vip(self._describe(load_balancer, amphora))

    def settle(self, gone_id):
        """Have the amphora that is left tell its neighbours once more.

        The other one may have told them last, by a request that was given up
        here, or whoever worked on it before may have ended in between.

        :param gone_id: the amphora that is deleted.
        :raises AgentUnreachable, AgentRefused: if it does not.
        """
        load_balancer = self._work.get_load_balancer(without=(gone_id,))
        for each in load_balancer.amphorae:
            self._repeat(self._make_announcement(
                load_balancer, self._work.agent_of(each)))

    def _configure_agent(self, new):
        own_list.give(self._work, new, compat_amphora.SINGLE)

    def _move(self, load_balancer, giver, taker, is_giver_needed=True):
        taking = self._work.agent_of(taker)
        announce = self._make_announcement(load_balancer, taking)
        # Not at one that has it, and may serve.
        if (giver is not None and detection.is_needed(load_balancer) and
                not self._work.insist(taking.holds,
                                      load_balancer.vip.ip_address)):
            detection.suspend(self._work, taker, _find(
                load_balancer, taker.id).vrrp_ip)
        self._work.insist(taking.take_vip,
                          self._describe(load_balancer, taker))
        announce()
        if giver is not None:
            try:
                self._work.insist(self._work.agent_of(giver).release_vip,
                                  self._describe(load_balancer, giver))
            except work_.AGENT_ERRORS as e:
                # It is deleted next, and others go to who told them last.
                if is_giver_needed:
                    raise
                LOG.debug('%s', e)
        self._repeat(announce)

    def _repeat(self, announce):
        for _ in range(_ANNOUNCEMENTS):
            self._work.pause(_ANNOUNCEMENT_INTERVAL)
            announce()

    def _make_announcement(self, load_balancer, taking):
        if not any(listener.enabled for listener in load_balancer.listeners):
            # Nothing runs that could tell, and nothing is asked for.
            return lambda: None
        return functools.partial(self._work.insist, taking.advertise,
                                 load_balancer.id)

    def _describe(self, load_balancer, amphora):
        """Return the VipInterface of an amphora, as Neutron has it."""
        if amphora.id not in self._described:
            self._described[amphora.id] = self._work.ask_network(
                amphora.id, self._read, load_balancer, amphora)
        return self._described[amphora.id]

    def _read(self, load_balancer, amphora):
        network = self._work.network
        port = network.get_port(amphora.vrrp_port_id)

        @functools.cache
        def get_subnet(subnet_id):
            return _describe_subnet(network.get_subnet(subnet_id))

        vips, fixed_ips = (
            tuple((each.ip_address, get_subnet(each.subnet_id))
                  for each in some) for some in (
                (load_balancer.vip, *load_balancer.additional_vips),
                port.fixed_ips))
        return agent.VipInterface(
            port.mac_address, _find(load_balancer, amphora.id).vrrp_ip,
            network.get_network(port.network_id).mtu, vips, fixed_ips)


def _find(load_balancer, amphora_id):
    """Return Octavia's data model of one amphora of a load balancer."""
    return next(amphora for amphora in load_balancer.amphorae
                if amphora.id == amphora_id)


def _describe_subnet(subnet):
    return agent.Subnet(subnet.cidr, subnet.gateway_ip, tuple(
        (route.destination, route.nexthop)
        for route in subnet.host_routes or ()))

# SPDX-License-Identifier: Apache-2.0

"""Moves the VIP of a SINGLE load balancer to another amphora.

For a moment both amphorae have it, and serve. The neighbours use the amphora
that announced the VIP last, so that there is always one.

Duplicate address detection would keep the second amphora from using an IPv6
VIP, and its agent from plugging it: the agent waits for half a minute, and
then cannot set the routes. So detection is switched off where the VIP goes, at
that interface alone.

The agent has no call for that, but keepalived runs a script when it starts, in
the namespace of the VIPs. After the script it adds an address to lo, which
shows that the script is done. keepalived then goes on without a task: an
amphora with a keepalived configuration sends heartbeats only while keepalived
runs. In a pair keepalived holds the VIP, and adds it without detection.
"""

import functools
import re
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import own_list
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)

# A neighbour may miss an announcement; seconds between them.
_ANNOUNCEMENTS = 3
_ANNOUNCEMENT_INTERVAL = 0.7

# From the range for documentation, RFC 3849: no network uses it.
_MARK = '2001:db8::dad'
_LOOPBACK = 'lo'
_INTERFACE = re.compile(r'[A-Za-z0-9_-]{1,15}')
# Seconds until keepalived must have run the script.
_TIMEOUT = 20

# The kernel looks at both settings.
_TEMPLATE = '''\
# By octavia-hmsync, for the moment at which two amphorae have the VIP.
global_defs {{
    startup_script "/sbin/sysctl -q -w net.ipv6.conf.all.accept_dad=0 \
net.ipv6.conf.{interface}.accept_dad=0" root
}}

static_ipaddress {{
    {mark}/128 dev lo
}}
'''


def is_needed(load_balancer):
    """Tell whether a load balancer has an IPv6 VIP."""
    return any(':' in vip.ip_address for vip in (
        load_balancer.vip, *load_balancer.additional_vips))


def suspend(work, amphora, vrrp_ip):
    """Switch detection off at the interface of an amphora's VIPs.

    :param amphora: any object with an id and an lb_network_ip.
    :param vrrp_ip: its own address at that interface.
    :raises AgentUnreachable, AgentRefused: if its agent fails.
    :raises NotProven: if detection does not go off in time.
    """
    subject = work.agent_of(amphora)
    interface = work.insist(subject.get_interface, vrrp_ip)
    if not _INTERFACE.fullmatch(interface or ''):
        raise exceptions.NotProven(
            f'The agent of amphora {amphora.id} names no interface with '
            f'{vrrp_ip}.')
    work.insist(subject.upload_keepalived,
                _TEMPLATE.format(interface=interface, mark=_MARK))
    work.insist(subject.start_keepalived)
    deadline = time.monotonic() + _TIMEOUT
    while work.insist(subject.get_interface, _MARK) != _LOOPBACK:
        if time.monotonic() > deadline:
            raise exceptions.NotProven(
                f'keepalived of amphora {amphora.id} does not switch '
                f'duplicate address detection off within {_TIMEOUT} s.')
        work.pause()


class Single:
    """Configures and switches amphorae of SINGLE load balancers."""

    def __init__(self, work):
        self._work = work
        # Neutron's data of each amphora, by its id, since Neutron may be down
        # when the VIP has to go back. They do not change under the lock.
        self._described = {}

    @staticmethod
    def get_holders(old_id, new_id, is_switched):
        """Return the ids of possible holders of the VIP."""
        return frozenset({new_id if is_switched else old_id})

    def configure(self, old, new):
        """Configure the new amphora, without the VIP.

        :raises SecretsUnavailable: if not all certificates can be fetched.
        :raises AgentUnreachable, AgentRefused: if it fails.
        :raises CloudUnavailable: if Neutron does not tell what the switch
                                  will need.
        """
        own_list.give_of_zone(self._work, new)
        load_balancer = self._work.get_load_balancer()
        # Read before the VIP moves, for both directions.
        for each in filter(None, (old, new)):
            self.describe(load_balancer, each)
        self._work.get_listeners(load_balancer).update(
            load_balancer, _find(load_balancer, new.id))

    def switch(self, old, new):
        """Move the VIP from the old to the new amphora.

        :raises AgentUnreachable, AgentRefused: if one of them fails.
        :raises NotProven: if an IPv6 VIP cannot be on both.
        """
        load_balancer = self._work.get_load_balancer()
        self._configure_agent(new)
        self._move(load_balancer, old, new)

    def back(self, old, new):
        """Move the VIP back to the old amphora.

        :raises AgentUnreachable, AgentRefused: if the old one fails.
        :raises NotProven: as switch().
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        if new is not None and not (new.lb_network_ip and new.vrrp_port_id):
            # It was never complete enough to get the VIP.
            new = None
        self._move(self._work.get_load_balancer(), new, old,
                   is_giver_needed=False)

    def leave(self, amphora):
        """Remove the VIP from an amphora that is to be deleted.

        :raises AgentUnreachable, AgentRefused: if it may have failed.
        """
        load_balancer = self._work.get_load_balancer()
        agent_ = self._work.agent_of(amphora)
        if agent_.holds(load_balancer.vip.ip_address):
            agent_.release_vip(self.describe(load_balancer, amphora))

    def settle(self, gone_id):
        """Let the remaining amphora announce the VIP once more.

        The other one may have announced it last, in a late request or for a
        housekeeper that died.

        :raises AgentUnreachable, AgentRefused: if it fails.
        """
        self.announce(self._work.get_load_balancer(without=(gone_id,)))

    def announce(self, load_balancer):
        """Let the amphorae of a data model announce the VIP, as settle()."""
        for each in load_balancer.amphorae:
            self._repeat(self._make_announcement(
                load_balancer, self._work.agent_of(each)))

    def _configure_agent(self, new):
        own_list.give(self._work, new, compat_amphora.SINGLE)

    def _move(self, load_balancer, giver, taker, is_giver_needed=True):
        self.take(load_balancer, taker, giver and functools.partial(
            self.release, load_balancer, giver), is_giver_needed)

    def release(self, load_balancer, giver):
        """Remove the VIP from an amphora, which may not answer at once.

        :raises AgentUnreachable, AgentRefused: if it fails.
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        self._work.insist(self._work.agent_of(giver).release_vip,
                          self.describe(load_balancer, giver))

    def take(self, load_balancer, taker, release=None,
             is_release_needed=True):
        """Give an amphora the VIP, beside the amphorae that have it.

        :param release: then called without arguments, to take it from these;
                        None if there are none.
        :param is_release_needed: whether that has to succeed.
        :raises AgentUnreachable, AgentRefused: if one of them fails.
        :raises NotProven: if an IPv6 VIP cannot be on both.
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        taking = self._work.agent_of(taker)
        announce = self._make_announcement(load_balancer, taking)
        # Not if it has the VIP already, and may serve.
        if (release is not None and is_needed(load_balancer) and
                not self._work.insist(taking.holds,
                                      load_balancer.vip.ip_address)):
            suspend(self._work, taker, _find(
                load_balancer, taker.id).vrrp_ip)
        self._work.insist(taking.take_vip,
                          self.describe(load_balancer, taker))
        announce()
        if release is not None:
            try:
                release()
            except work_.AGENT_ERRORS as e:
                # It is deleted next, and clients use the last announcement.
                if is_release_needed:
                    raise
                LOG.debug('%s', e)
        self._repeat(announce)

    def _repeat(self, announce):
        announce()
        for _ in range(_ANNOUNCEMENTS):
            self._work.pause(_ANNOUNCEMENT_INTERVAL)
            announce()

    def _make_announcement(self, load_balancer, taking):
        if not any(listener.enabled for listener in load_balancer.listeners):
            # Without haproxy there is nothing to announce or to serve.
            return lambda: None
        return functools.partial(self._work.insist, taking.advertise,
                                 load_balancer.id)

    def describe(self, load_balancer, amphora):
        """Return the VipInterface of an amphora, from Neutron's data.

        Neutron is asked once: later it may be down.

        :raises CloudUnavailable: if it does not answer.
        """
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

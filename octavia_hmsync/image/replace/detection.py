# SPDX-License-Identifier: Apache-2.0

"""Lets two amphorae of a SINGLE load balancer have an IPv6 VIP for a moment.

Duplicate address detection would keep the second amphora from using the VIP,
and its agent from plugging it: the agent waits for half a minute, and then
cannot set the routes. So detection is switched off where the VIP goes, at that
interface alone.

The agent has no call for that, but keepalived runs a script when it starts, in
the namespace of the VIPs. After the script it adds an address to lo, which
shows that the script is done. keepalived then goes on without a task: an
amphora with a keepalived configuration sends heartbeats only while keepalived
runs. In a pair keepalived holds the VIP, and adds it without detection.
"""

import re
import time

from octavia_hmsync import exceptions

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

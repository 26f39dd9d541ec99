# SPDX-License-Identifier: Apache-2.0

"""An IPv6 VIP is on two amphorae of a SINGLE load balancer for a moment.

Duplicate address detection would keep the second one from using it, and the
agent from plugging it: it waits for half a minute, and then cannot set the
routes. So detection is off where the VIP goes, at that interface alone. The
agent has no call for it; keepalived does it where the VIPs are, by a script
that it runs as it starts. It gives lo an address when the script is done, by
which that is seen. It has nothing else to do there, and goes on: an amphora
with a configuration of keepalived sends heartbeats only while that runs. Of a
pair it is keepalived that has the VIP, which adds it without detection.
"""

import re
import time

from octavia_hmsync import exceptions

# Of documentation, RFC 3849: no network has it.
_MARK = '2001:db8::dad'
_LOOPBACK = 'lo'
_INTERFACE = re.compile(r'[A-Za-z0-9_-]{1,15}')
# Seconds.
_TIMEOUT = 20

# The kernel looks at both.
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
    """Tell whether a load balancer has an IPv6 VIP.

    :param load_balancer: Octavia's data model of it.
    """
    return any(':' in vip.ip_address for vip in (
        load_balancer.vip, *load_balancer.additional_vips))


def suspend(work, amphora, vrrp_ip):
    """Switch detection off at the interface of an amphora's VIPs.

    :param work: a Work.
    :param amphora: of any kind that has an id and an lb_network_ip.
    :param vrrp_ip: the address of its own at that interface.
    :raises AgentUnreachable, AgentRefused: if its agent does not do it.
    :raises NotProven: if it is not seen to be off.
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

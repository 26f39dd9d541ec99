# SPDX-License-Identifier: Apache-2.0

"""Answering for an address of a VIP: ARP and neighbour discovery. Pure."""

import ipaddress

from octavia_hmsync.distributor.ovs import claims
from octavia_hmsync.distributor.ovs import openflow

# Frames that claim the VIP, or seem to: counted, and never forwarded.
CLAIM_PRIORITY = 800
_ANSWER_PRIORITY = 700
_SOLICITATION, _ADVERTISEMENT = 135, 136
# Of an advertisement: solicited, override.
_FLAGS = 0x60000000
_BROADCAST = 'ff:ff:ff:ff:ff:ff'


def get_family(address: str) -> int:
    return ipaddress.ip_address(address).version


def get_solicited_mac(address: str) -> str:
    """Return the MAC address to which an IPv6 address is asked for."""
    last = ipaddress.ip_address(address).packed[-3:]
    return '33:33:ff:' + ':'.join(f'{byte:02x}' for byte in last)


def make_flows(address: str, mac: str, in_port: int, table: int,
               second_table: int, active: bool) -> list[openflow.Flow]:
    """Return flows for what is said and asked of an address.

    :param mac: of the distributor.
    :param in_port: OpenFlow port by which frames come and go.
    :param table: that sees a frame first.
    :param second_table: for what becomes an advertisement.
    """
    make = _make_arp if get_family(address) == 4 else _make_nd
    return make(address, mac, in_port, table, second_table, active)


def _make_arp(address: str, mac: str, in_port: int, table: int,
              second_table: int, active: bool) -> list[openflow.Flow]:
    here = f'in_port={in_port}'
    flows = [
        openflow.Flow(table, CLAIM_PRIORITY,
                      (here, 'arp', f'arp_spa={address}'), claims.ACTIONS),
        # Only members send from there, to their clients.
        openflow.Flow(table, CLAIM_PRIORITY,
                      (here, 'ip', f'nw_src={address}'), ())]
    for destination in (_BROADCAST, mac) if active else ():
        flows.append(openflow.Flow(
            table, _ANSWER_PRIORITY,
            (here, f'eth_dst={destination}', 'arp', 'arp_op=1',
             f'arp_tpa={address}'),
            ('move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]',
             f'set_field:{mac}->eth_src', 'set_field:2->arp_op',
             'move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]',
             'move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]',
             f'set_field:{mac}->arp_sha', f'set_field:{address}->arp_spa',
             'in_port')))
    return flows


def _make_nd(address: str, mac: str, in_port: int, table: int,
             second_table: int, active: bool) -> list[openflow.Flow]:
    here = f'in_port={in_port}'
    flows = [
        openflow.Flow(table, CLAIM_PRIORITY,
                      (here, 'icmp6', f'icmp_type={_ADVERTISEMENT}',
                       'icmp_code=0', f'nd_target={address}'),
                      claims.ACTIONS),
        openflow.Flow(table, CLAIM_PRIORITY,
                      (here, 'ipv6', f'ipv6_src={address}'), ())]
    if not active:
        return flows
    for destination in (get_solicited_mac(address), mac):
        asked = (here, f'eth_dst={destination}', 'icmp6',
                 f'icmp_type={_SOLICITATION}', 'icmp_code=0', 'nw_ttl=255',
                 f'nd_target={address}')
        # A host checks whether the address is free for itself; whether it
        # may have it, is not for the distributor to say.
        flows.append(openflow.Flow(table, _ANSWER_PRIORITY + 1,
                                   (*asked, 'ipv6_src=::'), ()))
        flows.append(openflow.Flow(
            table, _ANSWER_PRIORITY, asked,
            ('move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]',
             f'set_field:{mac}->eth_src',
             'move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[]',
             f'set_field:{address}->ipv6_src', 'set_field:255->nw_ttl',
             f'set_field:{_ADVERTISEMENT}->icmpv6_type',
             # Type of the option: of the source here, of the target there.
             'set_field:2->nd_options_type',
             f'set_field:{_FLAGS:#x}->nd_reserved',
             f'resubmit(,{second_table})')))
    flows.append(openflow.Flow(
        second_table, _ANSWER_PRIORITY,
        ('icmp6', f'icmp_type={_ADVERTISEMENT}', 'icmp_code=0',
         f'nd_target={address}'),
        (f'set_field:{mac}->nd_tll', 'in_port')))
    return flows

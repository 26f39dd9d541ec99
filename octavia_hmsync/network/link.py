# SPDX-License-Identifier: Apache-2.0

"""The interface of a node's port in the kernel.

Neutron assigns the port's addresses, and nothing else on the node would set
them in time: DHCP comes late after a boot, or not at all.
"""

import contextlib
import errno
import ipaddress
import pathlib
import socket

import psutil
import pyroute2

from octavia_hmsync import exceptions

# Duplicate address detection is off, because Neutron assigns each address
# once, and a tentative address cannot be bound for a second (IFA_F_NODAD of
# linux/if_addr.h).
_WITHOUT_DETECTION = 0x02
# Addresses that exist but cannot be used: duplicates of another node's
# (IFA_F_DADFAILED), or still being checked (IFA_F_TENTATIVE).
_UNUSABLE = 0x08 | 0x40
# Without this flag an address expires (IFA_F_PERMANENT).
_LASTING = 0x80
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_ACCEPT_RA = '/proc/sys/net/ipv6/conf/{}/accept_ra'
_ADVICE = ('Run this as root (in a container with NET_ADMIN), and check that '
           'the kernel has the IP version of the management network on.')


def get(name):
    """Return (MAC or None, addresses but link-local), None without it."""
    found = psutil.net_if_addrs().get(name)
    if found is None:
        return None
    mac = next((a.address.lower() for a in found
                if a.family == psutil.AF_LINK), None)
    addresses = [ipaddress.ip_address(a.address.partition('%')[0])
                 for a in found if a.family in _FAMILIES.values()]
    return mac, [str(a) for a in sorted(
        addresses, key=lambda a: (a.version, a)) if not a.is_link_local]


def configure(name, addresses):
    """Bring an interface up with exactly these addresses.

    Repeating it does no harm. Link-local addresses are left alone.

    :returns: True if anything was changed.
    :raises InterfaceUnavailable: with the reason.
    """
    try:
        with pyroute2.IPRoute() as ipr:
            return _configure(ipr, name, addresses)
    except pyroute2.NetlinkError as e:
        raise exceptions.InterfaceUnavailable(
            f'The interface {name} cannot be configured: {e.args[1]}. '
            f'{_ADVICE}') from None
    except OSError as e:
        raise exceptions.InterfaceUnavailable(
            f'The interface {name} cannot be configured: {e.strerror}. '
            f'{_ADVICE}') from None


def _configure(ipr, name, addresses):
    found = ipr.link_lookup(ifname=name)
    if not found:
        raise exceptions.InterfaceUnavailable(
            f'There is no interface {name} here: run this in the network '
            f'namespace of ovs-vswitchd.')
    # Routers in that network are for the amphorae: this node must not take
    # its default route from them. In a container that may not write there,
    # the operator has to set this.
    with contextlib.suppress(OSError):
        pathlib.Path(_ACCEPT_RA.format(name)).write_text('0')
    index = found[0]
    changed = False
    if not ipr.get_links(index)[0]['flags'] & 1:
        ipr.link('set', index=index, state='up')
        changed = True
    present, lasting, unusable = set(), set(), set()
    for message in ipr.get_addr(index=index):
        address = ipaddress.ip_interface(
            f"{message.get_attr('IFA_ADDRESS')}/{message['prefixlen']}")
        if address.ip.is_link_local:
            continue
        present.add(address)
        if message['flags'] & _UNUSABLE:
            unusable.add(address)
        elif message['flags'] & _LASTING:
            lasting.add(address)
    # An unusable address stays unusable when it is replaced.
    others = present - set(addresses) | unusable
    for address in others:
        _change(ipr, 'del', index, address)
        changed = True
    for address in addresses:
        # With the first address of an IPv4 subnet the kernel deletes the
        # later ones.
        if others or address not in lasting:
            _change(ipr, 'replace', index, address)
            changed = True
    return changed


def _change(ipr, verb, index, address):
    options = {}
    if verb == 'replace' and address.version == 6:
        options['flags'] = _WITHOUT_DETECTION
    try:
        ipr.addr(verb, index=index, address=str(address.ip),
                 prefixlen=address.network.prefixlen,
                 family=_FAMILIES[address.version], **options)
    except pyroute2.NetlinkError as e:
        # A concurrent call has deleted it.
        if verb != 'del' or e.code != errno.EADDRNOTAVAIL:
            raise

# SPDX-License-Identifier: Apache-2.0

"""VIP documents for tests."""

import copy

from hypothesis import strategies as st

from octavia_hmsync.distributor import document as doc


def make_id(number):
    """Return a UUID."""
    return f'{number:08x}-0000-4000-8000-000000000000'


def make_mac(number):
    """Return a MAC address."""
    return f'fa:16:3e:00:{number // 256:02x}:{number % 256:02x}'


VIP_ID = make_id(0xabc)

RAW = {
    'version': 7, 'active': True, 'algorithm': 'HASH', 'affinity': 'FLOW',
    'addresses': ['10.0.0.5', 'fd00::5'],
    'port': {'id': make_id(1), 'mac': make_mac(1), 'mtu': 1450},
    'pin_timeout': 3600,
    'members': [
        {'id': make_id(10), 'slot': 0, 'peer_group': 0, 'mac': make_mac(10),
         'state': 'ACTIVE'},
        {'id': make_id(11), 'slot': 1, 'peer_group': 0, 'mac': make_mac(11),
         'state': 'DRAINING'},
        {'id': make_id(12), 'slot': 2, 'peer_group': 1, 'mac': None,
         'state': 'DEAD'}]}


def make_raw(**changes):
    """Return what a controller sends, with other values for some fields."""
    return {**copy.deepcopy(RAW), **changes}


def make_document(version=7, members=None, **changes):
    """Return a Document.

    :param members: states by slot; those of RAW if None.
    """
    if members is not None:
        changes['members'] = [
            {'id': make_id(10 + slot), 'slot': slot, 'peer_group': slot // 2,
             'mac': make_mac(10 + slot), 'state': state}
            for slot, state in enumerate(members)]
    return doc.parse(make_raw(version=version, **changes))


@st.composite
def raw_documents(draw):
    """Any document that is right, as JSON."""
    slots = draw(st.lists(st.integers(0, 255), unique=True, max_size=9))
    members = []
    for number, slot in enumerate(slots):
        state = draw(st.sampled_from(('ACTIVE', 'DRAINING', 'DEAD')))
        mac = make_mac(100 + number)
        if draw(st.booleans()):
            mac = mac.upper()
        if state == 'DEAD' and draw(st.booleans()):
            mac = None
        members.append({
            'id': make_id(100 + number), 'slot': slot, 'mac': mac,
            'peer_group': draw(st.integers(0, 255)), 'state': state})
    addresses = draw(st.lists(
        st.one_of(st.ip_addresses(network='10.0.0.0/8'),
                  st.ip_addresses(network='2001:db8::/32')),
        unique=True, min_size=1, max_size=10))
    more = {}
    if draw(st.booleans()):
        more['probe'] = {
            'addresses': draw(st.lists(st.sampled_from(
                ('192.0.2.9', '192.0.2.8', 'fd00::9')), min_size=1,
                unique=True)),
            'ports': draw(st.lists(st.integers(1, 65535), min_size=1,
                                   max_size=16, unique=True))}
        if draw(st.booleans()):
            more['probe']['peers'] = [
                {'id': member['id'], 'port': 1025,
                 'address': draw(st.sampled_from(('10.9.9.9', 'FD00::99')))}
                for member in members]
    return {
        **more, 'version': draw(st.integers(1, 2 ** 53 - 1)),
        'active': draw(st.booleans()), 'algorithm': 'HASH',
        'affinity': draw(st.sampled_from(('FLOW', 'SOURCE_IP'))),
        'addresses': [draw(st.sampled_from((str(ip), ip.exploded)))
                      for ip in addresses],
        'port': {'id': make_id(draw(st.integers(0, 99))),
                 'mac': make_mac(draw(st.integers(0, 99))),
                 'mtu': draw(st.integers(576, 65535))},
        'pin_timeout': draw(st.integers(1, 7 * 86400)),
        'members': members,
        **({'partners': [make_mac(200), make_mac(201).upper()]}
           if draw(st.booleans()) else {})}

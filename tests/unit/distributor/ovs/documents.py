# SPDX-License-Identifier: Apache-2.0

"""Documents for tests."""

from octavia_hmsync.distributor import document as doc

PORT = doc.Port('5f0c2f0e-0000-4000-8000-000000000001', 'fa:16:3e:00:00:99',
                1450)
ADDRESSES = ('10.0.0.5', 'fd00::5')


def mac(number):
    return f'fa:16:3e:00:01:{number:02x}'


def make_document(*states, affinity=doc.FLOW, version=1, active=True,
                  addresses=ADDRESSES, pin_timeout=3600, port=PORT,
                  partners=()):
    """A document with a member for each state, in slots from 0.

    A state may be None, which leaves the slot out, or a tuple of a state and
    the number of the MAC address.
    """
    members = []
    for slot, state in enumerate(states):
        if state is None:
            continue
        state, number = (state if isinstance(state, tuple) else
                         (state, slot))
        members.append(doc.Member(
            f'00000000-0000-4000-8000-{number:012}', slot, slot // 2,
            mac(number), state))
    return doc.Document(version, active, 'HASH', affinity, tuple(addresses),
                        port, pin_timeout, tuple(members), tuple(partners))

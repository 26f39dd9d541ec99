# SPDX-License-Identifier: Apache-2.0

"""Flows for probes of members: their answers come to the process. Pure.

What a member sends to the distributor itself, from the VIP or from its peers
port, goes to the process alone. Members must know where to send it: each is
told the MAC address of the distributor's own address.
"""

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import answers
from octavia_hmsync.distributor.ovs import openflow

# Before what counts frames that say they are from the VIP.
_PRIORITY = 850
# TCP ports that probes come from: all with this bit.
FIRST_PORT = 0x8000
# Bytes of a frame that the process is given: more than all headers have.
_LENGTH = 128


def make_flows(document: doc.Document, in_port: int, living: list[str],
               table: int, second_table: int) -> list[openflow.Flow]:
    """Return the flows, none without probes.

    :param in_port: OpenFlow port by which frames come and go.
    :param living: the MAC addresses of the members that are probed.
    :param table: that sees a frame first.
    :param second_table: for what becomes an advertisement.
    """
    pair = doc.choose_probe(document)
    if pair is None:
        return []
    mac = document.port.mac
    kind, source, target = openflow.TCP[answers.get_family(pair.vip)]
    flows = [openflow.Flow(
        table, _PRIORITY, (
            f'in_port={in_port}', f'eth_src={member}', f'eth_dst={mac}', kind,
            f'{source}={pair.vip}', f'{target}={pair.own}',
            f'tcp_dst={FIRST_PORT:#x}/{FIRST_PORT:#x}'),
        (f'controller(max_len={_LENGTH})',)) for member in living]
    peers = doc.choose_peers(document, pair)
    flows += [openflow.Flow(
        table, _PRIORITY, (
            f'in_port={in_port}', f'eth_src={member.mac}', f'eth_dst={mac}',
            kind, f'{source}={peers[member.id].address}',
            f'{target}={pair.own}', f'tcp_src={peers[member.id].port}',
            f'tcp_dst={FIRST_PORT:#x}/{FIRST_PORT:#x}'),
        (f'controller(max_len={_LENGTH})',))
        for member in document.members
        if member.id in peers and member.mac in living]
    for flow in answers.make_flows(pair.own, mac, in_port, table,
                                   second_table, active=True):
        if flow.table == second_table:
            flows.append(flow)
        # Claims of the address itself do not matter here.
        elif flow.priority != answers.CLAIM_PRIORITY:
            flows += [openflow.Flow(
                flow.table, flow.priority,
                (*flow.match, f'eth_src={member}'), flow.actions)
                for member in living]
    return flows

# SPDX-License-Identifier: Apache-2.0

"""Flows and groups in one bundle, by ovs-ofctl and by os-ken.

The same flows, as many as a VIP has, of the same kinds; both ways leave the
same in Open vSwitch, which is looked at. os-ken (``pip install os-ken``) knows
no ``clone``, so there is none here.
"""

import argparse
import collections
import itertools
import resource
import socket
import struct
import time

import fixtures
import psutil

from benchmarks import report
from octavia_hmsync.distributor.ovs import ofctl
from tests.functional.distributor import fabric

COLUMNS = ['way', 'bridges', 'flows', 'ms_each', 'cpu_ms', 'vswitchd_cpu_ms']

_TABLES, _BUCKETS = range(10, 70, 10), 4
_HEADER = struct.Struct('!BBHI')
_ERROR = 1


class ByOfctl:
    """As the distributor does: a process for each bundle."""

    name = 'ovs-ofctl bundle'

    def __init__(self, rundir):
        self._ofctl = ofctl.Ofctl(rundir, 60)

    def program(self, bridge, flows):
        """Have a bridge do all of it at once."""
        buckets = ''.join(
            f',bucket=bucket_id:{n},actions=set_field:{n:#x}->xreg1,'
            f'resubmit(,60)' for n in range(_BUCKETS))
        self._ofctl.apply(bridge, [
            f'group add_or_mod group_id=1,type=select{buckets}', *(
                f'flow add cookie=0x1,table={_TABLES[n % len(_TABLES)]},'
                f'priority={n},tcp,xreg2={n:#x},actions='
                f'{_LEARN if n % 3 == 0 else ""}'
                f'set_field:{n:#x}->xreg2,resubmit(,70)'
                for n in range(flows))])


_LEARN = ('learn(table=20,priority=10,cookie=0x2,idle_timeout=60,'
          'fin_idle_timeout=60,eth_type=0x800,NXM_OF_IP_SRC[],NXM_OF_IP_DST[],'
          'nw_proto=6,NXM_OF_TCP_SRC[],NXM_OF_TCP_DST[],'
          'load:1->NXM_NX_REG7[]),')


class ByOsKen:
    """Its messages, over a connection to the bridge; none of its threads."""

    name = 'os-ken'

    def __init__(self, rundir):
        from os_ken.ofproto import ofproto_protocol
        from os_ken.ofproto import ofproto_v1_5 as numbers
        from os_ken.ofproto import ofproto_v1_5_parser as messages

        self._rundir = rundir
        self._numbers, self._messages = numbers, messages
        self._datapath = ofproto_protocol.ProtocolDesc(
            version=numbers.OFP_VERSION)
        self._xids = itertools.count(1)
        self._connections = {}

    def program(self, bridge, flows):
        """Have a bridge do all of it at once."""
        connection = self._connections.get(bridge)
        if connection is None:
            # Kept, as a controller does.
            connection = self._connections[bridge] = socket.socket(
                socket.AF_UNIX)
            connection.connect(f'{self._rundir}/{bridge}.mgmt')
            self._send(connection, self._messages.OFPHello(self._datapath))
        ctrl = self._numbers
        self._control(connection, ctrl.OFPBCT_OPEN_REQUEST)
        self._send(connection, *map(self._add, (
            self._make_group(), *map(self._make_flow, range(flows)))))
        self._control(connection, ctrl.OFPBCT_COMMIT_REQUEST)
        self._wait_for(connection, ctrl.OFPT_BUNDLE_CONTROL, 2)

    def _control(self, connection, kind):
        self._send(connection, self._messages.OFPBundleCtrlMsg(
            self._datapath, 1, kind, self._flags, []))

    @property
    def _flags(self):
        return self._numbers.OFPBF_ATOMIC | self._numbers.OFPBF_ORDERED

    def _add(self, message):
        message.set_xid(next(self._xids))
        # It is put into the other one, which has the same number.
        one = self._messages.OFPBundleAddMsg(self._datapath, 1, self._flags,
                                             message, [])
        one.set_xid(message.xid)
        return one

    def _send(self, connection, *messages):
        data = bytearray()
        for message in messages:
            if message.xid is None:
                message.set_xid(next(self._xids))
            message.serialize()
            data += message.buf
        connection.sendall(data)

    def _wait_for(self, connection, kind, times):
        stream = connection.makefile('rb')
        while times:
            _version, found, length, _xid = _HEADER.unpack(
                stream.read(_HEADER.size))
            body = stream.read(length - _HEADER.size)
            if found == _ERROR:
                raise ValueError(f'refused: {body[:16].hex()}')
            times -= found == kind

    def _make_group(self):
        m, n = self._messages, self._numbers
        return m.OFPGroupMod(
            self._datapath, n.OFPGC_ADD_OR_MOD if hasattr(
                n, 'OFPGC_ADD_OR_MOD') else 0x8000, n.OFPGT_SELECT, 1,
            buckets=[m.OFPBucket(bucket_id=each, actions=[
                m.OFPActionSetField(xreg1=each), self._resubmit(60)])
                for each in range(_BUCKETS)],
            command_bucket_id=n.OFPG_BUCKET_ALL)

    def _make_flow(self, number):
        m, n = self._messages, self._numbers
        actions = [m.OFPActionSetField(xreg2=number), self._resubmit(70)]
        if number % 3 == 0:
            actions.insert(0, self._make_learn())
        return m.OFPFlowMod(
            self._datapath, cookie=1,
            table_id=_TABLES[number % len(_TABLES)], priority=number,
            match=m.OFPMatch(eth_type=0x800, ip_proto=6, xreg2=number),
            instructions=[m.OFPInstructionActions(n.OFPIT_APPLY_ACTIONS,
                                                  actions)])

    def _resubmit(self, table):
        return self._messages.NXActionResubmitTable(
            in_port=self._numbers.OFPP_IN_PORT & 0xffff, table_id=table)

    def _make_learn(self):
        m = self._messages
        return m.NXActionLearn(
            table_id=20, priority=10, cookie=2, idle_timeout=60,
            fin_idle_timeout=60, specs=[
                m.NXFlowSpecMatch(src=0x800, dst=('eth_type_nxm', 0),
                                  n_bits=16),
                m.NXFlowSpecMatch(src=('ipv4_src_nxm', 0),
                                  dst=('ipv4_src_nxm', 0), n_bits=32),
                m.NXFlowSpecMatch(src=('ipv4_dst_nxm', 0),
                                  dst=('ipv4_dst_nxm', 0), n_bits=32),
                m.NXFlowSpecMatch(src=6, dst=('ip_proto_nxm', 0), n_bits=8),
                m.NXFlowSpecMatch(src=('tcp_src_nxm', 0),
                                  dst=('tcp_src_nxm', 0), n_bits=16),
                m.NXFlowSpecMatch(src=('tcp_dst_nxm', 0),
                                  dst=('tcp_dst_nxm', 0), n_bits=16),
                m.NXFlowSpecLoad(src=1, dst=('reg7', 0), n_bits=32)])


def measure(bridges=100, flows=90, ways=(ByOfctl, ByOsKen)):
    """Program bridges one after the other.

    :returns: rows, each with what the bridges have then.
    """
    rows = []
    with fixtures.TempDir() as directory, fabric.Node(
            'network1', 1, directory.path) as node:
        names = [f'b{number}' for number in range(bridges)]
        for name in names:
            node.vswitch.vsctl('add-br', name, '--', 'set', 'Bridge', name,
                               'datapath_type=netdev', 'fail_mode=secure')
        vswitchd = psutil.Process(node.vswitch.vswitchd.pid)
        for way in ways:
            contender = way(node.vswitch.directory)
            before, there, began = _cpu(), _cpu_of(vswitchd), time.monotonic()
            for name in names:
                contender.program(name, flows)
            took = time.monotonic() - began
            rows.append(collections.OrderedDict(
                way=way.name, bridges=bridges, flows=flows,
                ms_each=took / bridges * 1000,
                cpu_ms=(_cpu() - before) / bridges * 1000,
                vswitchd_cpu_ms=(_cpu_of(vswitchd) - there) / bridges * 1000,
                left=_digest(node, names[-1])))
            for name in names:
                node.ofctl('del-flows', name)
                node.ofctl('del-groups', name)
    return rows


def _digest(node, bridge):
    flows = sorted(' '.join(line.split()) for line in node.ofctl(
        'dump-flows', bridge, '--no-stats').splitlines()[1:])
    return f'{len(flows)} {hash(tuple(flows)):x}'


def _cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _cpu_of(process):
    times = process.cpu_times()
    return times.user + times.system


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--bridges', type=int, default=100)
    parser.add_argument('--flows', type=int, default=90)
    args = parser.parse_args()
    rows = measure(args.bridges, args.flows)
    report.print_results('flows of distributors', COLUMNS, rows)
    if rows[0]['left'] != rows[1]['left']:
        raise SystemExit('They did not leave the same flows.')


if __name__ == '__main__':
    main()

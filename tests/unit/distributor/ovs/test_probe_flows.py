# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import probe_flows
from octavia_hmsync.distributor.ovs import transition as transitions
from tests.unit import base
from tests.unit.distributor.ovs import documents

PROBE = doc.Probe(('10.0.0.9', 'fd00::9'), (80,))
MAC = documents.PORT.mac


def make(*states, probe=PROBE, **kwargs):
    document = dataclasses.replace(documents.make_document(*states, **kwargs),
                                   probe=probe)
    return document, probe_flows.make_flows(
        document, 1, sorted(mapping.get_living(document)), pipeline.CLASSIFY,
        pipeline.ADVERTISE)


class TestFlows(base.TestCase):

    def test_none(self):
        for probe in (None, doc.Probe(('192.0.2.1',), (80,))):
            _, flows = make(doc.ACTIVE, probe=probe, addresses=['fd00::5'])
            self.assertEqual([], flows)

    def test_ipv4(self):
        _, flows = make(doc.ACTIVE, doc.DEAD)
        member = documents.mac(0)
        self.assertEqual(
            [f'table=0,priority=850,in_port=1,eth_src={member},eth_dst={MAC},'
             f'tcp,nw_src=10.0.0.5,nw_dst=10.0.0.9,tcp_dst=0x8000/0x8000,'
             f'actions=controller(max_len=128)'],
            [flow.to_text() for flow in flows if 'controller' in str(flow)])
        self.assertEqual(
            [f'in_port=1,eth_dst={target},arp,arp_op=1,arp_tpa=10.0.0.9,'
             f'eth_src={member}' for target in ('ff:ff:ff:ff:ff:ff', MAC)],
            [','.join(flow.match) for flow in flows if 'arp' in flow.match])

    def test_peers(self):
        """What comes from where haproxy of a member itself answers."""
        document, _ = make(doc.ACTIVE, doc.DEAD, doc.DRAINING, doc.ACTIVE)
        probe = dataclasses.replace(PROBE, peers=tuple(
            doc.Peer(member.id, address, 1025) for member, address in zip(
                document.members, ('10.0.0.20', '10.0.0.21', 'fd00::22'))))
        _, flows = make(doc.ACTIVE, doc.DEAD, doc.DRAINING, doc.ACTIVE,
                        probe=probe)
        self.assertEqual(
            [f'table=0,priority=850,in_port=1,eth_src={documents.mac(0)},'
             f'eth_dst={MAC},tcp,nw_src=10.0.0.20,nw_dst=10.0.0.9,'
             f'tcp_src=1025,tcp_dst=0x8000/0x8000,'
             f'actions=controller(max_len=128)'],
            [flow.to_text() for flow in flows if 'tcp_src=1025' in flow.match])

    def test_ipv6(self):
        _, flows = make(doc.ACTIVE, addresses=['fd00::5'])
        answers = [flow for flow in flows if flow.table == pipeline.CLASSIFY]
        self.assertTrue(all(f'eth_src={documents.mac(0)}' in flow.match
                            for flow in answers))
        self.assertEqual(1, sum('tcp6' in flow.match for flow in flows))
        self.assertEqual(1, len(flows) - len(answers))

    @given(st.lists(st.sampled_from(doc.schemas.STATES), max_size=6),
           st.sampled_from([('10.0.0.5',), ('fd00::5',),
                            ('10.0.0.5', 'fd00::5')]), st.booleans())
    def test_any(self, states, addresses, is_active):
        """Only members get in; beside answers nothing goes out."""
        document, flows = make(*states, addresses=addresses,
                               active=is_active)
        living = mapping.get_living(document)
        for flow in flows:
            if flow.table == pipeline.CLASSIFY:
                sender, = [term.partition('=')[2] for term in flow.match
                           if term.startswith('eth_src=')]
                self.assertIn(sender, living)
                self.assertIn('in_port=1', flow.match)
            self.assertFalse(any(action.startswith(('output', 'group'))
                                 for action in flow.actions))
            self.assertEqual([], [
                action for action in flow.actions
                if 'controller' in action and
                action != 'controller(max_len=128)'])
        if not living:
            self.assertFalse(any(flow.table == pipeline.CLASSIFY
                                 for flow in flows))

    def test_all_of_a_vip(self):
        """No two flows have one match, nothing else changes."""
        document, _ = make(doc.ACTIVE, doc.DRAINING, doc.ACTIVE)
        plain = dataclasses.replace(document, probe=None)
        transition = transitions.advance(None, document, 0)
        programs = [pipeline.compile_vip(each, transition, 1)
                    for each in (document, plain)]
        keys = [(flow.table, flow.priority, flow.match)
                for flow in programs[0].flows]
        self.assertEqual(len(keys), len({
            (table, priority, frozenset(match))
            for table, priority, match in keys}))
        self.assertLess(set(programs[1].flows), set(programs[0].flows))
        self.assertEqual(programs[0].groups, programs[1].groups)
        # They count as nobody's claims.
        self.assertEqual(
            *[sum(flow.priority == 800 for flow in program.flows)
              for program in programs])

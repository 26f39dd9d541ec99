# SPDX-License-Identifier: Apache-2.0

"""What is programmed, whatever there is to be done."""

import dataclasses
import re

import hypothesis
from hypothesis import strategies as st
from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import transition as transitions
from tests.unit.distributor.ovs import documents
from tests.unit.distributor.ovs import switch

OWN = documents.PORT.mac
STATES = st.lists(st.sampled_from((doc.ACTIVE, doc.DRAINING, doc.DEAD,
                                   None)), max_size=6)
PARTNERS = ('fa:16:3e:00:00:98', 'fa:16:3e:00:00:97')
AFFINITY = st.sampled_from((doc.FLOW, doc.SOURCE_IP))


def compile_vip(document, transition=None, **kwargs):
    transition = transition or transitions.advance(None, document, 0)
    return pipeline.compile_vip(document, transition, 1, **kwargs)


def install(document, transition=None, **kwargs):
    one = switch.Switch()
    one.install(compile_vip(document, transition, **kwargs),
                mapping.get_living(document))
    return one


class TestProgram(base.BaseTestCase):

    @hypothesis.settings(deadline=None, derandomize=True)
    @hypothesis.given(STATES, STATES, AFFINITY, AFFINITY, st.booleans(),
                      st.sampled_from(((), PARTNERS[:1], PARTNERS)),
                      STATES, st.sets(st.integers(0, 5)))
    def test_any(self, before, after, affinity, other_affinity, active,
                 partners, between, proven):
        old = documents.make_document(*before, affinity=affinity)
        document = documents.make_document(
            *after, affinity=other_affinity, active=active,
            partners=partners)
        transition = transitions.advance(None, old, 0)
        for number, each in enumerate((documents.make_document(*between),
                                       document)):
            transition = dataclasses.replace(
                transitions.advance(transition, each, number),
                proven=frozenset(map(documents.mac, proven)))
        program = compile_vip(document, transition)
        self.check_flows(program, document)
        self.check_groups(program, document)

    def check_flows(self, program, document):
        keys = [(flow.table, flow.priority, flow.match)
                for flow in program.flows]
        self.assertEqual(len(keys), len(set(keys)))
        living = mapping.get_living(document)
        groups = {f'group:{group.id}' for group in program.groups}
        for flow in program.flows:
            for action in flow.actions:
                # Back where it came from, and nowhere else.
                self.assertNotIn('output', action)
                self.assertNotIn('normal', action.lower())
                self.assertNotIn('flood', action)
                if action.startswith(tuple(f'learn(table={table},'
                                           for table in sharing.LEARNED)):
                    # With one, a pin would cost a count of all there are.
                    self.assertNotIn('limit=', action)
                if action.startswith('clone('):
                    self.assertIn(re.search(
                        f'set_field:{OWN}->eth_src,set_field:([^,]*)->eth_dst'
                        f',in_port', action).group(1), document.partners)
                target = re.match(r'set_field:(.*)->eth_dst$', action)
                if target:
                    self.assertIn(target.group(1), living)
                if action.startswith('group:'):
                    self.assertIn(action, groups)
            if 'in_port' in flow.actions:
                self.assertIn(f'set_field:{OWN}->eth_src', (
                    *flow.actions, *(
                        # Its first half has set it.
                        [f'set_field:{OWN}->eth_src']
                        if flow.table == pipeline.ADVERTISE else [])))
            if flow.table == pipeline.CLASSIFY and flow.actions:
                self.assertIn('in_port=1', flow.match)

    def check_groups(self, program, document):
        known = set()
        active = {sharing.to_number(member.mac) for member
                  in document.members if member.state == doc.ACTIVE}
        for group in program.groups:
            for _, actions in group.buckets:
                for action in actions:
                    if action.startswith('group:'):
                        self.assertIn(int(action[6:]), known)
                    found = re.match(r'set_field:(.*)->xreg1', action)
                    if found:
                        self.assertIn(int(found.group(1), 16), active)
            known.add(group.id)

    def test_text(self):
        """What ovs-ofctl is told, in full where it is short."""
        document = documents.make_document(doc.ACTIVE, active=False,
                                           addresses=('10.0.0.5',))
        program = compile_vip(document)
        text = '\n'.join(flow.to_text() for flow in program.flows)
        self.assertIn(
            'table=70,priority=10,xreg2=0xfa163e000100,actions='
            'set_field:fa:16:3e:00:00:99->eth_src,'
            'set_field:fa:16:3e:00:01:00->eth_dst,in_port', text)
        self.assertIn('table=0,priority=900,vlan_tci=0x1000/0x1000,'
                      'actions=drop', text)
        self.assertNotIn('arp_op', text)
        self.assertNotIn('tcp6', text)
        self.assertEqual(
            'group_id=1,type=select,selection_method=hash,'
            'fields(ip_src,ipv6_src,tcp_src,udp_src,sctp_src),'
            'bucket=bucket_id:0,actions=set_field:0xfa163e000100->xreg1,'
            'resubmit(,60)', program.groups[0].to_text())

    def test_cookie(self):
        """Of the content, and of nothing else."""
        one, other = (documents.make_document(doc.ACTIVE, state)
                      for state in (doc.ACTIVE, doc.DRAINING))
        self.assertEqual(compile_vip(one).cookie, compile_vip(one).cookie)
        self.assertNotEqual(compile_vip(one).cookie,
                            compile_vip(other).cookie)
        self.assertEqual(0x6d, compile_vip(one).cookie >> 56)

    def test_bundle(self):
        program = compile_vip(documents.make_document(doc.ACTIVE))
        lines = program.to_bundle({program.cookie, 0x6d << 56}, {1, 2},
                                  ['cookie=0x1/0x1,table=20'])
        self.assertTrue(lines[0].startswith('group add_or_mod group_id=1,'))
        self.assertTrue(lines[1].startswith(
            f'flow add cookie={program.cookie:#x},table=0,'))
        self.assertEqual(['flow delete cookie=0x6d00000000000000/-1',
                          'flow delete cookie=0x1/0x1,table=20',
                          'group delete group_id=2'], lines[-3:])
        self.assertEqual(len(program.flows) + 4, len(lines))

    def test_pins(self):
        self.assertEqual('cookie=0xfa163e000102/0xffffffffffff,table=20',
                         sharing.match_pins('fa:16:3e:00:01:02').to_text())
        self.assertEqual(0x2fa163e000102, sharing.get_pin_cookie(
            'fa:16:3e:00:01:02', pipeline.OLD))


class TestPackets(base.BaseTestCase):
    """What becomes of packets that are no TCP, or not for the VIP."""

    def setUp(self):
        super().setUp()
        self.document = documents.make_document(
            doc.ACTIVE, doc.DRAINING, doc.ACTIVE, doc.DEAD)
        self.active = {documents.mac(0), documents.mac(2)}
        self.switch = install(self.document, max_copied=500)

    def send(self, *args, **kwargs):
        self.switch.receive(switch.packet(*args, **kwargs))
        # One frame that becomes many is counted, and no other one is.
        self.assertEqual(len(self.switch.sent) > 1, self.switch.metered)
        return self.switch.sent

    def test_ignored(self):
        for fields in (
                {'dst': '10.0.0.6'}, {'dst': 'fd00::6'}, {'proto': 47},
                {'eth_dst': 'ff:ff:ff:ff:ff:ff'},
                {'eth_dst': documents.mac(0)}, {'vlan': True},
                {'eth_src': OWN}, {'eth_src': '01:00:5e:00:00:01'},
                {'in_port': 2}, {'src': '10.0.0.5'},
                {'proto': 1, 'icmp_type': 5},
                {'proto': 1, 'icmp_type': 0},
                {'proto': 58, 'dst': 'fd00::5', 'icmp_type': 134}):
            self.assertEqual([], self.send(**{
                'src': '10.0.0.9', 'port': 7, 'flags': [switch.SYN],
                **fields}), fields)

    def test_udp(self):
        for port in range(20):
            sent = self.send('10.0.0.9', port, proto=17)
            self.assertEqual(sent, self.send('10.0.0.9', port, proto=17))
            self.assertIn(sent[0], self.active)

    def test_errors(self):
        """All who may have the connection that it is about."""
        for proto, dst, kinds in ((1, '10.0.0.5', (3, 11, 12)),
                                  (58, 'fd00::5', (1, 2, 3, 4))):
            for kind in kinds:
                self.assertEqual(
                    [documents.mac(n) for n in (0, 1, 2)],
                    self.send('10.0.0.9', 0, dst, proto=proto,
                              icmp_type=kind))

    def test_echo(self):
        for proto, dst, kind in ((1, '10.0.0.5', 8), (58, 'fd00::5', 128)):
            sent, = {*self.send('10.0.0.9', 0, dst, proto=proto,
                                icmp_type=kind)}
            self.assertIn(sent, self.active)

    def test_fragments(self):
        """The first as any other packet, what has no ports to all."""
        for proto in (6, 17):
            whole = self.send('10.0.0.9', 7, proto=proto)
            self.assertEqual(whole, self.send('10.0.0.9', 7, proto=proto,
                                              frag='first'))
            self.assertEqual([documents.mac(n) for n in (0, 1, 2)],
                             self.send('10.0.0.9', 7, proto=proto,
                                       frag='later'))

    def test_meters(self):
        """Two, whose numbers are others where the rate is another."""
        program = compile_vip(self.document, max_copied=500)
        self.assertEqual([(1000, 500), (1001, 500)], [
            (meter.id, meter.rate) for meter in program.meters])
        self.assertNotEqual(program.cookie, compile_vip(
            self.document, max_copied=501).cookie)
        # A data path that has none.
        program = compile_vip(self.document)
        self.assertEqual((), program.meters)
        self.assertNotIn('meter', str(program.flows))

    def test_nobody(self):
        self.switch = install(documents.make_document())
        self.assertEqual([], self.send('10.0.0.9', 1, flags=[switch.SYN]))
        self.assertEqual([], self.send('10.0.0.9', 1))

    def test_flood_of_beginnings(self):
        """Pins of handshakes are soon gone, and there are not too many."""
        before = documents.make_document(doc.ACTIVE)
        after = documents.make_document(doc.DRAINING, doc.ACTIVE)
        transition = transitions.advance(transitions.advance(
            None, before, 0), after, 1)
        self.switch = install(after, transition, room=pipeline.Room.SCARCE)
        for port in range(1500):
            self.send('10.0.0.9', port, flags=[switch.SYN])
        pins = self.switch.pins[pipeline.HANDSHAKES]
        self.assertEqual(1000, len(pins))
        # Who meant it is not affected.
        self.send('10.0.0.9', 5)
        self.switch.now += sharing.YOUNG_TIMEOUT
        self.switch.expire()
        self.assertEqual({}, pins)
        self.assertEqual(1, len(self.switch.pins[pipeline.PINS]))
        self.assertEqual([documents.mac(1)], self.send('10.0.0.9', 5))

    def test_one_pin_for_each(self):
        """A connection that begins in a change costs one, and lasts."""
        before = documents.make_document(doc.ACTIVE)
        after = documents.make_document(doc.DRAINING, doc.ACTIVE)
        transition = transitions.advance(transitions.advance(
            None, before, 0), after, 1)
        self.switch = install(after, transition)
        for flags in ([switch.SYN], [switch.ACK], [switch.ACK]):
            self.assertEqual([documents.mac(1)], self.send(
                '10.0.0.9', 5, flags=flags))
        self.switch.now += 3600
        self.switch.expire()
        self.assertEqual([documents.mac(1)], self.send('10.0.0.9', 5))
        self.assertEqual([0, 1], self.count_pins())
        self.send('10.0.0.9', 5, flags=[switch.FIN, switch.ACK])
        self.switch.now += sharing.FIN_TIMEOUT
        self.switch.expire()
        self.assertEqual([0, 0], self.count_pins())

    def count_pins(self):
        return [len(self.switch.pins[table]) for table in (
            pipeline.PINS, pipeline.HANDSHAKES)]

    def test_no_room(self):
        """What needs no pin to begin gets none, and does not break."""
        before = documents.make_document(doc.ACTIVE, doc.ACTIVE)
        for after, pins in (
                # An addition: all by the list of before.
                (documents.make_document(doc.ACTIVE, doc.ACTIVE, doc.ACTIVE),
                 False),
                # Who drains is not fed, so some have to be pinned.
                (documents.make_document(doc.DRAINING, doc.ACTIVE), True)):
            transition = transitions.advance(transitions.advance(
                None, before, 0), after, 1)
            self.switch = install(after, transition, room=pipeline.Room.NONE)
            active = {member.mac for member in after.members
                      if member.state == doc.ACTIVE}
            for port in range(40):
                first = self.send('10.0.0.9', port, flags=[switch.SYN])
                self.assertLessEqual(set(first), active)
                self.assertEqual(first, self.send('10.0.0.9', port))
            self.assertEqual(pins, bool(self.count_pins()[1]))

    def test_no_room_and_a_beginning_comes_again(self):
        """After its second packet, or seen so late: it goes where it went."""
        before = documents.make_document(doc.ACTIVE, doc.ACTIVE)
        after = dataclasses.replace(before, affinity=doc.SOURCE_IP)
        transition = transitions.advance(transitions.advance(
            None, before, 0), after, 1)
        self.switch = install(after, transition, room=pipeline.Room.NONE)
        flags = ([switch.SYN], [switch.ACK], [switch.SYN], [switch.ACK])
        found = set()
        for port in range(40):
            sent = [self.send('10.0.0.9', port, flags=each) for each in flags]
            self.assertEqual(4 * sent[:1], sent)
            found.add(tuple(sent[0]))
        # Some of them are not where new ones go.
        self.assertEqual(2, len(found))

    def test_ended(self):
        """Who ends with the first packet is not remembered for long."""
        before = documents.make_document(doc.ACTIVE)
        after = documents.make_document(doc.DRAINING, doc.ACTIVE)
        transition = transitions.advance(transitions.advance(
            None, before, 0), after, 1)
        self.switch = install(after, transition)
        ack, last = [switch.ACK], [switch.FIN, switch.ACK]
        for port, packets in enumerate((
                [ack], [ack, last], [last, ack], [[switch.RST]])):
            for flags in packets:
                self.assertEqual([documents.mac(0)], self.send(
                    '10.0.0.9', port, flags=flags))
        pins = {dict(match)['tcp_src']: idle for match, (_, _, idle) in
                self.switch.pins[pipeline.PINS].items()}
        self.assertEqual({0: 3600 + transitions.MARGIN,
                          **dict.fromkeys((1, 2, 3), sharing.FIN_TIMEOUT)},
                         pins)
        # One of which the beginning alone was seen, by the one it went to.
        for port, end in ((4, ack), (5, last), (6, [switch.RST])):
            for flags in ([switch.SYN], end):
                self.assertEqual([documents.mac(1)], self.send(
                    '10.0.0.9', port, flags=flags))
        pins = {dict(match)['tcp_src']: idle for match, (_, _, idle) in
                self.switch.pins[pipeline.HANDSHAKES].items()}
        self.assertEqual(
            {4: 3600 + transitions.MARGIN,
             **dict.fromkeys((5, 6), sharing.FIN_TIMEOUT)}, pins)
        # Whoever comes with the same port is new.
        for port in pins:
            self.assertEqual([documents.mac(1)], self.send(
                '10.0.0.9', port, flags=[switch.SYN]))
            self.assertEqual([documents.mac(1)], self.send('10.0.0.9', port))


class TestSharing(base.BaseTestCase):
    """What distributors tell each other."""

    def setUp(self):
        super().setUp()
        before = documents.make_document(doc.ACTIVE, partners=PARTNERS)
        self.document = documents.make_document(
            doc.DRAINING, doc.ACTIVE, partners=PARTNERS)
        self.switch = install(self.document, transitions.advance(
            transitions.advance(None, before, 0), self.document, 1))

    def send(self, port=7, *args, **kwargs):
        self.switch.receive(switch.packet('10.0.0.9', port, *args, **kwargs))
        return self.switch.told

    def test_told(self):
        """Of each beginning once, and of what follows a minute later."""
        told = self.send(flags=[switch.SYN])
        self.assertEqual([documents.mac(1)], self.switch.sent)
        self.assertEqual([(OWN, partner, 254, '10.0.0.9', 7)
                          for partner in PARTNERS],
                         [(one['eth_src'], one['eth_dst'], one['nw_ttl'],
                           one['src'], one['tcp_src']) for one in told])
        self.assertEqual([], self.send(flags=[switch.SYN]))
        self.assertEqual([], self.send())
        self.switch.now += sharing.LONGEST_INTERVAL
        self.switch.expire()
        self.assertEqual(2, len(self.send()))
        self.assertEqual([], self.send())
        # One that was there before.
        self.assertEqual([255, 255], [one['nw_ttl'] for one in self.send(8)])
        self.assertEqual([documents.mac(0)], self.switch.sent)
        self.switch.now += sharing.LONGEST_INTERVAL
        self.switch.expire()
        self.assertEqual(2, len(self.send()))
        self.assertEqual([], self.send())
        # The end, and what comes with it.
        self.assertEqual(2, len(self.send(flags=[switch.FIN, switch.ACK])))
        self.assertEqual([], self.send())
        self.assertEqual(2, len(self.send(flags=[switch.RST])))

    def test_nothing_to_tell(self):
        """Without a change nothing is pinned, and nobody told."""
        self.switch = install(self.document)
        for flags in ([switch.SYN], [switch.ACK], [switch.FIN]):
            self.assertEqual([], self.send(flags=flags))
            self.assertFalse(any(self.switch.pins.values()))

    def test_told_of_a_flood(self):
        """A beginning is told of, and what follows is, which has a pin."""
        self.switch = install(self.document, transitions.advance(
            transitions.advance(None, documents.make_document(
                doc.ACTIVE, partners=PARTNERS), 0), self.document, 1),
            room=pipeline.Room.SCARCE)
        self.assertEqual([254, 254], [
            one['nw_ttl'] for one in self.send(flags=[switch.SYN])])
        self.assertEqual([254, 254], [one['nw_ttl'] for one in self.send()])
        self.assertEqual([], self.send())

    def test_no_room(self):
        """Who cannot note that others were told tells them again."""
        for port in range(1200):
            self.send(port)
        for _ in range(2):
            told = [bool(self.send(5000 + port)) for port in range(5)]
            self.assertEqual([True] * 5, told)
        self.assertEqual(1000, len(self.switch.pins[sharing.SHARED]))

    def test_heard(self):
        """It is pinned, and nothing is sent, whatever it is."""
        frames = [{'nw_ttl': 255 - slot, 'flags': [flag], 'dst': dst,
                   'src': src, 'frag': frag}
                  for slot in (0, 1, 2, 255) for flag in (
                      switch.SYN, switch.ACK, switch.FIN, switch.RST)
                  for src, dst in (('10.0.0.9', '10.0.0.5'),
                                   ('fd00::9', 'fd00::5'))
                  for frag in ('no', 'first')]
        for fields in frames:
            self.switch.receive(switch.packet(
                port=9, eth_src=PARTNERS[0], **fields))
            self.assertEqual(([], []), (self.switch.sent, self.switch.told))
        self.assertEqual({documents.mac(1)}, {
            f'{pin.values["xreg2"]:012x}' and documents.mac(
                pin.values['xreg2'] & 0xff)
            for pin, _, _ in self.switch.pins[sharing.PINS].values()})
        self.send(9)
        self.assertEqual([documents.mac(1)], self.switch.sent)

    def test_others_are_not_believed(self):
        for slot in range(2):
            self.send(9, eth_src='fa:16:3e:00:00:96', nw_ttl=255 - slot)
            self.assertEqual([documents.mac(0)], self.switch.sent)


class TestSeveral(base.BaseTestCase):
    """What may be of several members."""

    def send(self, *args, **kwargs):
        self.switch.receive(switch.packet(*args, **kwargs))
        return self.switch.sent

    def count_pins(self):
        return [len(self.switch.pins[table]) for table in (
            pipeline.PINS, pipeline.HANDSHAKES)]

    def change(self, *states, proven, **kwargs):
        """Several lists of members, one after the other."""
        transition = None
        for number, each in enumerate(states):
            document = documents.make_document(*each, **kwargs)
            transition = dataclasses.replace(
                transitions.advance(transition, document, number),
                proven=frozenset(map(documents.mac, proven)))
        self.switch = install(document, transition)

    def test_several(self):
        """What may be of several goes to all of them, and nothing is kept."""
        A = doc.ACTIVE
        for dst, src in (('10.0.0.5', '10.0.0.9'), ('fd00::5', 'fd00::9')):
            self.change((A,), (A, A), (A, A, A), proven=range(3))
            found = set()
            for port in range(60):
                first, = self.send(src, port, dst, flags=[switch.SYN])
                self.assertEqual([False], self.switch.are_marked)
                for flags in ([switch.ACK], [switch.FIN, switch.ACK],
                              [switch.RST]):
                    sent = self.send(src, port, dst, flags=flags)
                    # It was the only one before the changes.
                    self.assertEqual(documents.mac(0), sent[0])
                    self.assertIn(first, sent)
                    self.assertEqual(len(sent), len(set(sent)))
                    self.assertEqual([len(sent) > 1] * len(sent),
                                     self.switch.are_marked)
                found.add(len(sent))
            self.assertEqual({1, 2, 3}, found)
            self.assertEqual([0, 0], self.count_pins())

    def test_too_many(self):
        """What begins is pinned, as this list will not be remembered."""
        self.change(*[(doc.ACTIVE,) * number for number in range(1, 6)],
                    proven=range(5))
        sizes = set()
        for port in range(60):
            first = self.send('10.0.0.9', port, flags=[switch.SYN])
            self.assertEqual(first, self.send('10.0.0.9', port))
            sizes.add(len(self.send('10.0.0.9', 100 + port)))
        self.assertEqual(0, self.count_pins()[0])
        self.assertLess(0, self.count_pins()[1])
        self.assertLess(3, max(sizes))

    def test_one_answers(self):
        """It gets no packets of others, and its own are pinned."""
        A = doc.ACTIVE
        self.change((A,), (A, A), (A, A, A), proven=(0, 2))
        for port in range(60):
            first, = self.send('10.0.0.9', port, flags=[switch.SYN])
            sent = self.send('10.0.0.9', port)
            self.assertIn(first, sent)
            if documents.mac(1) in sent:
                self.assertEqual([documents.mac(1)], sent)
        self.assertLess(0, self.count_pins()[1])
        # What was there before is the first one's.
        for port in range(100, 160):
            self.assertIn(documents.mac(0), self.send('10.0.0.9', port))

    def test_first_answers(self):
        """All that was there is its own, as all others are pinned."""
        A = doc.ACTIVE
        self.change((A,), (A, A), (A, A, A), proven=(1, 2))
        for port in range(100, 160):
            self.assertEqual([documents.mac(0)], self.send('10.0.0.9', port))
        for port in range(60):
            self.assertEqual(
                self.send('10.0.0.9', port, flags=[switch.SYN]),
                self.send('10.0.0.9', port))

    def test_pins_of_a_recorder(self):
        """One member, or several; a beginning replaces them."""
        A = doc.ACTIVE
        macs = [documents.mac(number) for number in range(5)]
        for states in ([(A,) * 5], [(A,), (A,) * 5]):
            self.change(*states, proven=range(5))
            key = recorder.Key(4, '10.0.0.9', 7, '10.0.0.5', 80)
            for some in (macs[3:4], macs[3:], macs):
                self.switch.forget_taken()
                self.switch.take([recorder.Pin(key, tuple(some))], 75)
                self.assertEqual(some, self.send('10.0.0.9', 7))
                self.assertEqual([len(some) > 1] * len(some),
                                 self.switch.are_marked)
            first, = self.send('10.0.0.9', 7, flags=[switch.SYN])
            self.assertIn(first, self.send('10.0.0.9', 7))

    def learn(self, port, mac):
        """Have what began before pinned."""
        self.switch.learn([switch.Learned(
            sharing.HANDSHAKES,
            {'family': 4, 'src': '10.0.0.9', 'dst': '10.0.0.5',
             'proto': 6, 'tcp_src': port, 'tcp_dst': 80},
            {'xreg2': sharing.to_number(mac), 'reg7': sharing.YOUNG}, 0, 60,
            None, None)])

    def test_drains_for_longer_than_its_list(self):
        """What is pinned to it is still its own."""
        A, D = doc.ACTIVE, doc.DRAINING
        lists = [mapping.of_document(documents.make_document(*states))
                 for states in ((D, A, A), (D, D, A))]
        self.switch = install(
            documents.make_document(D, D, A), transitions.Transition(
                *lists, 1, proven=frozenset(map(documents.mac, range(3)))))
        self.learn(7, documents.mac(0))
        self.assertEqual([documents.mac(0)], self.send('10.0.0.9', 7))

    def test_port_comes_again(self):
        """Its second packet comes before anything is learned of the first."""
        A, draining = doc.ACTIVE, documents.mac(0)
        self.change((A, A, A), (doc.DRAINING, A, A), proven=range(3))
        found = set()
        for port in range(60):
            by_lists = self.send('10.0.0.9', port)
            self.learn(port, draining)
            self.assertIn(draining, self.send('10.0.0.9', port))
            self.switch.receive(switch.packet(
                '10.0.0.9', port, flags=[switch.SYN]), learns=False)
            first, = self.switch.sent
            self.assertNotEqual(draining, first)
            sent = self.send('10.0.0.9', port)
            self.assertLessEqual({draining, first}, set(sent))
            self.assertEqual({True}, set(self.switch.are_marked))
            # What is learned late may be of one that went as before.
            self.send('10.0.0.9', port, flags=[switch.SYN])
            self.assertLessEqual(set(by_lists),
                                 set(self.send('10.0.0.9', port)))
            found.add(first)
        self.assertEqual({documents.mac(1), documents.mac(2)}, found)

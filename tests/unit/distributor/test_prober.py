# SPDX-License-Identifier: Apache-2.0

import dataclasses
import itertools
import random

import fixtures
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.distributor import announcement
from octavia_hmsync.distributor import claims
from octavia_hmsync.distributor import probe_frames
from octavia_hmsync.distributor import probe_results as results_
from octavia_hmsync.distributor import probe_rules
from octavia_hmsync.distributor import probed_vip
from octavia_hmsync.distributor import prober
from octavia_hmsync import exceptions
from tests.unit import base
from tests.unit.distributor import examples

PEER_PORT = 1025
PROBE = {'addresses': ['10.0.0.9'], 'ports': [80, 443]}
VIP_IDS = [examples.make_id(0x300 + number) for number in range(4)]
ACK = probe_frames.ACK
UP, DOWN, UNKNOWN = probe_rules.UP, probe_rules.DOWN, results_.UNKNOWN


@dataclasses.dataclass
class Heard:
    frames: list
    marks: list
    is_more: bool = False


class Network:
    """Members, and an Open vSwitch before them.

    .silent and .refusing are MAC addresses; .liars are called with each SYN
    and send what they return.
    """

    def __init__(self):
        self.lines = []
        self.silent, self.refusing = set(), set()
        # They live, and take nothing.
        self.full = set()
        self.closed = set()
        # Their haproxy reads nothing; nothing of theirs admits calls.
        self.hung, self.shut = set(), set()
        # Calls that haproxy has not read, and all that there were.
        self.unread, self.calls = [], []
        self.liars = []
        self.is_hung = self.is_down = False
        self.lost = 0
        self.synced = []
        self.resets = []
        # What is announced.
        self.claims = []

    def serve(self):
        """Have haproxy read what came, where it does."""
        for line, segment in list(self.unread):
            if segment.target_mac not in self.hung:
                self.unread.remove((line, segment))
                line.waiting.frames.append(reply(
                    segment, probe_frames.PSH, payload=b'501\n').to_frame())

    def dial(self, vip_id):
        if self.is_down:
            raise exceptions.VswitchUnavailable('it is down')
        line = Line(self, vip_id)
        self.lines.append(line)
        return line


class Line:

    def __init__(self, network, vip_id):
        self.network = network
        self.vip_id = vip_id
        self.is_closed = False
        self.waiting = Heard([], [])

    def fileno(self):
        raise AssertionError('nobody waits here')

    def close(self):
        self.is_closed = True

    def _check(self):
        assert not self.is_closed
        if self.network.is_down:
            raise exceptions.VswitchUnavailable('it is down')

    def send(self, frames, mark=None):
        self._check()
        for frame in frames:
            segment = probe_frames.parse(frame)
            if segment is None:
                self.network.claims.append(claims.read_claim(frame))
            elif segment.target_port == PEER_PORT:
                self._answer_call(segment)
            elif segment.flags == probe_frames.RST:
                self.network.resets.append(segment)
            else:
                self._answer(segment)
        if mark and not self.network.is_hung:
            self.waiting.marks.append(mark)

    def _answer_call(self, segment):
        network = self.network
        if network.is_hung or segment.target_mac in (
                network.silent | network.shut):
            return
        if segment.flags == probe_frames.SYN:
            network.calls.append(segment)
            self.waiting.frames.append(answer(
                segment, probe_frames.RST if segment.target_mac in
                network.refusing else probe_frames.SYN))
        elif segment.flags & probe_frames.PSH:
            self.waiting.frames.append(reply(segment, 0).to_frame())
            network.unread.append((self, segment))
        self.network.serve()

    def _answer(self, syn):
        network = self.network
        if syn.flags == ACK:
            if not (network.is_hung or syn.target_mac in network.silent):
                self.waiting.frames.append(reply(
                    syn, probe_frames.RST, sequence=syn.acknowledged,
                    acknowledged=0).to_frame())
            return
        assert syn.flags == probe_frames.SYN, syn
        network.synced.append((self.vip_id, syn))
        for liar in network.liars:
            self.waiting.frames += [one.to_frame() for one in liar(syn)]
        if network.is_hung or syn.target_mac in (
                network.silent | network.full):
            return
        is_refused = (syn.target_mac in network.refusing or
                      syn.target_port in network.closed)
        self.waiting.frames.append(answer(
            syn, probe_frames.RST if is_refused else probe_frames.SYN))

    def receive(self):
        self._check()
        heard, self.waiting = self.waiting, Heard([], [])
        return heard


def reply(syn, flags=probe_frames.SYN, **changes):
    return dataclasses.replace(probe_frames.Segment(
        syn.target_mac, syn.source_mac, syn.target, syn.source,
        syn.target_port, syn.source_port, 99, (syn.sequence + 1) % 2 ** 32,
        flags | ACK), **changes)


def answer(syn, flags):
    return reply(syn, flags).to_frame()


class ProbedVipTestCase(base.TestCase):

    patience = 0

    def setUp(self):
        super().setUp()
        self.begin()

    def begin(self):
        self.now = 1000.0
        self.network = Network()
        self.results = results_.Results()
        self.announced = []
        self.left = []
        self.subject = probed_vip.ProbedVip(
            VIP_IDS[0], self.results, 1, 2, self.now,
            lambda vip_id: self.announced.append((self.now, vip_id)),
            prober.Losses(lambda: self.network.lost, 1,
                          lambda: self.now).are_recent,
            lambda *args: self.left.append(args), self.patience)

    def follow(self, states=('ACTIVE', 'ACTIVE', 'DRAINING', 'DEAD'),
               **changes):
        self.document = examples.make_document(
            members=states, **{'probe': PROBE, **changes})
        self.macs = [one.mac for one in self.document.members]
        self.subject.follow(self.document, self.now)

    def run_for(self, seconds, may_begin=True):
        """Let time pass; answers come within a tick."""
        end = self.now + seconds
        while self.now < end - 1e-6:
            try:
                self.subject.step(self.now, self.network.dial, may_begin)
                self.subject.hear(self.now)
            except exceptions.VswitchUnavailable:
                self.failed = True
            self.now += .05

    def get(self):
        return {int(member[:8], 16) - 10: result.state for member, result
                in self.results.get_of_vip(VIP_IDS[0]).items()}

    def get_errors(self):
        return {result.error for result in
                self.results.get_of_vip(VIP_IDS[0]).values()}


class TestProbedVip(ProbedVipTestCase):

    def test_well(self):
        self.follow()
        self.assertEqual({0: UNKNOWN, 1: UNKNOWN, 2: UNKNOWN}, self.get())
        self.run_for(.2)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.run_for(10)
        # Once a second, to each but the dead one.
        self.assertLessEqual(len(self.network.synced), 3 * 11)
        self.assertGreaterEqual(len(self.network.synced), 3 * 9)
        for _, syn in self.network.synced:
            self.assertIn(syn.target_mac, self.macs[:3])
            self.assertEqual(('10.0.0.9', '10.0.0.5', 80),
                             (syn.source, syn.target, syn.target_port))
            self.assertEqual(self.document.port.mac, syn.source_mac)
        # Each is taken back, once; no port is used twice.
        self.assertEqual(len(self.network.synced), len(self.network.resets))
        self.assertEqual(len(self.network.synced), len(
            {syn.source_port for _, syn in self.network.synced}))

    def test_dead(self):
        self.follow()
        for seconds in (.3, .77, 1.5):
            self.run_for(10)
            self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
            self.run_for(seconds)
            self.network.silent.add(self.macs[1])
            self.run_for(2.2)
            self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
            self.assertEqual({None, probe_rules.SILENT}, self.get_errors())
            self.network.silent.clear()
            self.run_for(2.2)

    def lose(self, probability, seed, seconds):
        """Have Open vSwitch lose some of what it forwards."""
        dice = random.Random(seed)  # nosec B311
        seen = set()
        for _ in range(int(seconds * 20)):
            lost = {mac for mac in self.macs if dice.random() < probability}
            self.network.lost += len(lost)
            self.network.silent = self.dead | lost
            self.run_for(.05)
            seen.update(key for key, state in self.get().items()
                        if state == DOWN)
        return seen

    def test_busy(self):
        """What it loses itself is no sign against members."""
        self.dead = set()
        self.follow()
        self.run_for(10)
        for seed in range(5):
            self.assertEqual(set(), self.lose(.2, seed, 60))
        # Who is dead misses all.
        self.dead = {self.macs[1]}
        self.assertEqual({1}, self.lose(.2, 7, 9))

    def test_lost_before(self):
        """What was lost at any other time excuses nobody."""
        self.follow()
        self.network.lost = 1000
        self.run_for(10)
        self.network.lost = 2000
        self.network.silent.add(self.macs[1])
        self.run_for(2.8)
        self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
        self.network.lost = None
        self.network.silent.add(self.macs[0])
        self.run_for(2.8)
        self.assertEqual({0: DOWN, 1: DOWN, 2: UP}, self.get())

    def test_refused(self):
        self.follow()
        self.run_for(3)
        self.network.refusing.add(self.macs[0])
        self.run_for(1.3)
        self.assertEqual({0: DOWN, 1: UP, 2: UP}, self.get())
        self.assertEqual({None, probe_rules.REFUSED}, self.get_errors())

    def test_full(self):
        """One with as much to do as it can is not DOWN, however long."""
        log = self.useFixture(fixtures.FakeLogger())
        self.follow()
        self.run_for(3)
        before = self.results.read(None, 0, 0).sequence
        self.network.full.add(self.macs[1])
        self.run_for(60)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.assertEqual({None, probe_rules.FULL}, self.get_errors())
        self.assertEqual(before + 1, self.results.read(None, 0, 0).sequence)
        self.assertEqual(1, log.output.count('takes no more connections'))
        self.network.full.clear()
        self.run_for(2)
        self.assertEqual({None}, self.get_errors())
        # It dies of it.
        self.network.full.add(self.macs[1])
        self.run_for(10)
        self.network.silent.add(self.macs[1])
        self.run_for(2.8)
        self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
        # Who was dead, and answers that much, lives.
        self.network.silent.clear()
        self.run_for(4)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_one_port_is_taken_away(self):
        self.follow()
        self.run_for(3)
        before = self.results.read(None, 0, 0).sequence
        self.network.closed.add(80)
        self.run_for(5)
        self.assertEqual(before, self.results.read(None, 0, 0).sequence)
        self.assertEqual(443, self.network.synced[-1][1].target_port)

    def test_open_vswitch_hangs(self):
        """Nobody is DOWN for it."""
        self.follow()
        self.run_for(3)
        self.network.is_hung = True
        self.run_for(9)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.assertTrue(self.failed)
        self.run_for(5)
        # After a time nobody knows any more.
        self.assertEqual({0: UNKNOWN, 1: UNKNOWN, 2: UNKNOWN}, self.get())
        self.network.is_hung = False
        self.run_for(7)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_open_vswitch_is_away(self):
        self.follow()
        self.run_for(3)
        self.network.is_down = True
        self.run_for(5)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.assertTrue(all(line.is_closed for line in self.network.lines))
        self.network.is_down = False
        self.network.silent.add(self.macs[2])
        self.run_for(4)
        self.assertEqual({0: UP, 1: UP, 2: DOWN}, self.get())

    def test_flows_are_not_there(self):
        self.follow()
        self.run_for(5, may_begin=False)
        self.assertEqual([], self.network.synced)

    def test_members_change(self):
        self.follow(['ACTIVE', 'ACTIVE'])
        self.network.silent.add(self.macs[1])
        self.run_for(3.4)
        self.assertEqual({0: UP, 1: DOWN}, self.get())
        # One comes, what is known of others stays.
        self.follow(['ACTIVE', 'ACTIVE', 'ACTIVE'], version=8)
        self.assertEqual({0: UP, 1: DOWN, 2: UNKNOWN}, self.get())
        self.run_for(2)
        self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
        self.follow(['ACTIVE', 'DEAD', 'ACTIVE'], version=9)
        self.assertEqual({0: UP, 2: UP}, self.get())
        self.subject.end()
        self.assertEqual({}, self.get())
        self.assertTrue(self.network.lines[-1].is_closed)

    def test_liars(self):
        """Whoever speaks for another one is not believed."""
        self.follow(['ACTIVE', 'ACTIVE'])
        victim, liar = self.macs
        self.network.silent = {victim}

        def lie(syn):
            if syn.target_mac != victim:
                return
            # What anybody could know: all but the number in the SYN, which
            # only its target has.
            yield reply(syn, source_mac=liar)
            yield reply(syn, acknowledged=syn.sequence)
            yield reply(syn, acknowledged=0, flags=probe_frames.SYN | ACK)
            yield reply(syn, source='10.0.0.6')
            yield reply(syn, target='10.0.0.6')
            yield reply(syn, source_port=81)
            yield reply(syn, target_port=syn.source_port ^ 1)
            yield reply(syn, target_mac=liar)
            yield dataclasses.replace(reply(syn), flags=probe_frames.SYN)
            yield reply(syn, flags=ACK)
            yield dataclasses.replace(
                reply(syn, probe_frames.RST), sequence=syn.sequence,
                target_port=syn.source_port + 1, flags=probe_frames.RST)

        self.network.liars.append(lie)
        self.run_for(4)
        self.assertEqual({0: DOWN, 1: UP}, self.get())
        self.assertEqual({liar}, {reset.target_mac for reset
                                  in self.network.resets})

    def say(self, mac, address='10.0.0.5'):
        """Have somebody say that an address were its own."""
        self.network.lines[-1].waiting.frames += (
            announcement.make_frames(address, mac))

    def test_claims(self):
        """It is contradicted, and counts as one that does not answer."""
        log = self.useFixture(fixtures.FakeLogger())
        self.follow(['ACTIVE', 'ACTIVE', 'DEAD'],
                    addresses=['10.0.0.5', 'fd00::5'])
        self.run_for(3)
        begun = self.now
        for _ in range(25):
            self.say(self.macs[1])
            self.say(self.macs[1], 'fd00::5')
            self.run_for(1)
        self.assertEqual({0: UP, 1: DOWN}, self.get())
        self.assertEqual({None, claims.CLAIMS}, self.get_errors())
        self.assertEqual([VIP_IDS[0]] * 3, [vip_id for _, vip_id
                                            in self.announced])
        self.assertEqual(begun, self.announced[0][0])
        for (before, _), (after, _) in itertools.pairwise(self.announced):
            self.assertGreaterEqual(after - before, 9)
        self.assertEqual(1, log.output.count('is its own address'))
        self.assertIn(self.macs[1], log.output)
        # What it is seen to be once it stopped, and not at once.
        self.network.silent = {self.macs[1]}
        self.run_for(1790)
        self.assertEqual({None, claims.CLAIMS}, self.get_errors())
        self.run_for(20)
        self.assertEqual({None, probe_rules.SILENT}, self.get_errors())
        self.network.silent = set()
        self.run_for(5)
        self.assertEqual({0: UP, 1: UP}, self.get())

    def test_nobody_controls(self):
        """Who is dead gets nothing new, once nobody said so for a while."""
        log = self.useFixture(fixtures.FakeLogger())
        one, two = examples.make_id(10), examples.make_id(11)
        self.follow()
        self.run_for(3)
        self.network.silent.add(self.macs[0])
        self.run_for(11)
        self.assertEqual(frozenset(), self.subject.left_out)
        self.run_for(2)
        self.assertEqual({one}, self.subject.left_out)
        self.assertEqual(1, log.output.count('gets no new connections'))
        # The other one stays, as there is nobody else then.
        self.network.silent.add(self.macs[1])
        self.run_for(30)
        self.assertEqual({one}, self.subject.left_out)
        # It is back for good.
        self.network.silent.clear()
        self.run_for(20)
        self.assertEqual({one}, self.subject.left_out)
        self.run_for(20)
        self.assertEqual(frozenset(), self.subject.left_out)
        # A controller that says something knows what it does, for a while.
        self.network.silent.add(self.macs[1])
        self.run_for(13)
        self.assertEqual({two}, self.subject.left_out)
        self.follow(version=8)
        self.assertEqual(frozenset(), self.subject.left_out)
        self.run_for(55)
        self.assertEqual(frozenset(), self.subject.left_out)
        self.run_for(10)
        self.assertEqual({two}, self.subject.left_out)

    def test_this_one_reaches_nobody(self):
        self.follow()
        self.run_for(3)
        self.network.silent.update(self.macs)
        self.run_for(100)
        self.assertEqual(frozenset(), self.subject.left_out)

    def test_another_one_is_active(self):
        """Who hears that leaves it alone, as it was told nothing newer."""
        log = self.useFixture(fixtures.FakeLogger())
        partner = examples.make_mac(99)
        self.follow(partners=[partner])
        self.run_for(3)
        # What that one announced before is said again for a while.
        self.say(partner)
        self.run_for(30)
        self.say(partner)
        self.run_for(20)
        self.assertEqual([], self.left)
        self.say(partner, '10.0.0.77')
        self.run_for(1)
        self.assertEqual([], self.left)
        for _ in range(3):
            self.say(partner)
            self.run_for(1)
        self.assertEqual([(VIP_IDS[0], 7)], self.left)
        self.assertIn('answers for it no more', log.output)
        # It is told to be active again: the same anew.
        self.follow(partners=[partner], version=8)
        self.run_for(1)
        self.say(partner)
        self.run_for(45)
        self.assertEqual(1, len(self.left))
        self.say(partner)
        self.run_for(1)
        self.assertEqual((VIP_IDS[0], 8), self.left[-1])
        # Who stands by has nothing to leave.
        self.follow(partners=[partner], version=9, active=False)
        self.run_for(50)
        self.say(partner)
        self.run_for(1)
        self.assertEqual(2, len(self.left))

    def ask(self, seconds):
        """Let time pass in which controllers ask, as they do."""
        for _ in range(seconds // 10):
            self.results.read(None, 0, 0)
            self.run_for(10)

    def test_announced_again(self):
        """By the distributor that has the VIP, while controllers ask it."""
        self.follow(addresses=['10.0.0.5', 'fd00::5'], partners=[
            examples.make_mac(99)])
        self.ask(40)
        self.assertEqual([], self.network.claims)
        self.ask(240)
        mac = self.document.port.mac
        self.assertEqual({(mac, '10.0.0.5'), (mac, 'fd00::5')},
                         set(self.network.claims))
        count = self.network.claims.count((mac, 'fd00::5'))
        self.assertIn(count, (7, 8, 9))
        # It has left, until a newer version comes.
        self.say(examples.make_mac(99))
        self.run_for(1)
        self.network.claims.clear()
        self.ask(100)
        self.assertEqual([], self.network.claims)
        self.follow(version=8, active=False)
        self.ask(100)
        self.assertEqual([], self.network.claims)
        self.follow(version=9)
        self.ask(100)
        self.assertNotEqual([], self.network.claims)

    def test_not_announced_while_not_asked(self):
        """Another one may have the VIP by then."""
        silence = self.useFixture(fixtures.MockPatchObject(
            self.results, 'get_silence')).mock
        silence.return_value = 31
        self.follow()
        self.run_for(200)
        self.assertEqual([], self.network.claims)
        silence.return_value = 29
        self.run_for(31)
        self.assertNotEqual([], self.network.claims)

    def test_claims_of_others(self):
        """It is said, and harms no member; a partner may."""
        log = self.useFixture(fixtures.FakeLogger())
        partner = 'fa:16:3e:00:00:77'
        self.follow(['ACTIVE', 'ACTIVE', 'DEAD'], partners=[partner])
        self.run_for(3)
        self.say(partner)
        self.run_for(2)
        self.assertEqual('', log.output)
        for number in range(5):
            self.say(f'fa:16:3e:00:01:{number:02x}')
            self.run_for(2)
        # The others are some more of those that there is no end to.
        self.assertEqual(1, log.output.count('it is none of a member'))
        self.assertEqual({0: UP, 1: UP}, self.get())
        self.assertEqual([], self.announced)
        # One that nobody looks at any more is contradicted, too.
        self.say(self.macs[2])
        self.run_for(1)
        self.assertEqual(1, len(self.announced))
        self.assertEqual({0: UP, 1: UP}, self.get())

    def test_claims_without_open_vswitch(self):
        def fail(vip_id):
            raise exceptions.VswitchUnavailable('it is down')

        self.subject = probed_vip.ProbedVip(
            VIP_IDS[0], self.results, 1, 2, self.now, fail)
        self.follow(['ACTIVE', 'ACTIVE'])
        self.run_for(3)
        self.say(self.macs[0])
        self.run_for(3)
        self.assertEqual({0: DOWN, 1: UP}, self.get())

    def test_nothing_is_said_twice(self):
        """An answer that comes a thousand times is answered once."""
        self.follow(['ACTIVE'])
        self.network.liars.append(lambda syn: [reply(syn)] * 1000)
        self.run_for(5)
        self.assertEqual(len(self.network.synced), len(self.network.resets))

    @given(st.randoms(use_true_random=False))
    def test_any(self, chance):
        """Whatever happens: what stays so is told within three seconds."""
        self.begin()
        self.follow(['ACTIVE'] * 4)
        version = 7
        for _ in range(chance.randrange(12)):
            what = chance.randrange(5)
            if what == 0:
                self.network.silent = set(chance.sample(
                    self.macs, chance.randrange(4)))
            elif what == 1:
                self.network.refusing = set(chance.sample(
                    self.macs, chance.randrange(4)))
            elif what == 2:
                self.network.is_down = chance.random() < .5
            elif what == 3:
                self.network.is_hung = chance.random() < .5
            else:
                version += 1
                self.follow([chance.choice(['ACTIVE', 'DRAINING', 'DEAD'])
                             for _ in range(4)], version=version)
            self.run_for(chance.random() * 8)
        self.network.is_down = self.network.is_hung = False
        # What hung is given up first.
        self.run_for(6.9)
        self.run_for(3)
        self.assertEqual({
            slot: DOWN if mac in self.network.silent |
            self.network.refusing else UP
            for slot, mac in enumerate(self.macs)
            if self.document.members[slot].state != 'DEAD'}, self.get())


class Vips:
    """What a Prober asks, with its data plane."""

    def __init__(self, network):
        self.network = network
        self.backend = self
        self.documents = {}
        self.pending = set()
        self.left = []
        self.left_out = {}

    def list_probed(self):
        return {vip_id: (document, vip_id not in self.pending)
                for vip_id, document in self.documents.items()}

    def dial(self, vip_id):
        return self.network.dial(vip_id)

    def announce(self, vip_id):
        raise AssertionError('nobody claims anything here')

    def count_lost(self):
        return self.network.lost

    def leave(self, vip_id, version):
        self.left.append((vip_id, version))

    def leave_out(self, vip_id, version, member_ids):
        self.left_out[vip_id] = (version, set(member_ids))


class Selector:
    """Knows which lines have something, without waiting."""

    def __init__(self, test):
        self.test = test
        self.lines = {}

    def register(self, line, _events, vip_id):
        assert line not in self.lines and not line.is_closed
        self.lines[line] = vip_id

    def unregister(self, line):
        del self.lines[line]

    def select(self, timeout):
        found = [type('Key', (), {'data': vip_id})
                 for line, vip_id in list(self.lines.items())
                 if line.waiting.frames or line.waiting.marks or
                 self.test.network.is_down]
        if not found:
            self.test.now += timeout
        return [(key, None) for key in found]

    def close(self):
        self.lines = None


class TestHangs(ProbedVipTestCase):
    """A haproxy that does nothing, while its system takes connections."""

    patience = 10

    def follow(self, *states, **changes):
        states = states or ('ACTIVE', 'ACTIVE', 'DRAINING')
        super().follow(states, probe={**PROBE, 'peers': [
            {'id': examples.make_id(10 + slot), 'port': PEER_PORT,
             'address': f'10.0.0.{20 + slot}'}
            for slot in range(len(states))]}, **changes)

    def test_well(self):
        self.follow()
        self.run_for(30)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        # Each third second.
        self.assertIn(len(self.network.calls), range(3 * 8, 3 * 12))
        for call in self.network.calls:
            self.assertEqual('10.0.0.9', call.source)
            self.assertIn((call.target_mac, call.target), [
                (self.macs[slot], f'10.0.0.{20 + slot}')
                for slot in range(3)])
        # No port is used twice, whatever it is for.
        ports = [one.source_port for one in (
            *self.network.calls, *(syn for _, syn in self.network.synced))]
        self.assertEqual(len(ports), len(set(ports)))

    def test_hangs(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.follow()
        self.run_for(5)
        self.network.hung.add(self.macs[1])
        self.run_for(9)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.run_for(6)
        self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
        self.assertEqual({None, probe_rules.HANGS}, self.get_errors())
        self.assertEqual(1, log.output.count('it hangs'))
        before = self.results.read(None, 0, 0).sequence
        self.run_for(300)
        self.assertEqual(before, self.results.read(None, 0, 0).sequence)
        # It has no place for many calls that nobody reads.
        self.assertLess(len(self.network.unread), 8)
        self.network.hung.clear()
        self.run_for(120)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_goes_on(self):
        """It reads what waited, and is asked once more."""
        self.follow()
        self.network.hung.add(self.macs[1])
        self.run_for(15)
        self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
        self.network.hung.clear()
        self.network.serve()
        self.run_for(3)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_busy(self):
        """One that answers late, for hours, does not hang."""
        self.follow()
        for _ in range(40):
            self.network.hung.update(self.macs)
            self.run_for(8)
            self.network.hung.clear()
            self.network.serve()
            self.run_for(1)
            self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_full(self):
        """One that takes no connections of clients, and answers calls."""
        self.follow()
        self.run_for(3)
        self.network.full.add(self.macs[1])
        self.run_for(60)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        # Its queue is full because nobody takes them from it.
        self.network.hung.add(self.macs[1])
        self.run_for(25)
        self.assertEqual({0: UP, 1: DOWN, 2: UP}, self.get())
        self.assertIn(probe_rules.HANGS, self.get_errors())

    def test_nobody_is_admitted(self):
        """As by a security group."""
        self.follow()
        self.network.shut.add(self.macs[0])
        self.network.refusing.add(self.macs[1])
        self.network.closed.discard(80)
        self.run_for(3)
        self.network.refusing.clear()
        self.network.hung.add(self.macs[0])
        self.run_for(60)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_dies_after_that(self):
        self.follow()
        self.network.hung.add(self.macs[1])
        self.run_for(20)
        self.network.silent.add(self.macs[1])
        self.run_for(3)
        self.assertEqual({None, probe_rules.SILENT}, self.get_errors())

    def test_this_process_stood_still(self):
        """What came meanwhile is read late, and speaks for the member."""
        self.follow()
        self.network.hung.update(self.macs)
        self.run_for(5)
        self.now += 60
        self.run_for(3)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.network.hung.clear()
        self.network.serve()
        self.run_for(3)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_open_vswitch_is_away(self):
        self.follow()
        self.run_for(3)
        self.network.is_down = True
        self.run_for(5)
        self.network.is_down = False
        self.run_for(30)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())
        self.network.is_hung = True
        self.run_for(20)
        self.network.is_hung = False
        self.run_for(30)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())

    def test_nobody_controls(self):
        self.follow()
        self.network.hung.add(self.macs[0])
        self.run_for(90)
        self.assertEqual({self.document.members[0].id},
                         self.subject.left_out)

    def test_another_member_has_its_place(self):
        self.follow()
        self.network.hung.add(self.macs[0])
        self.run_for(20)
        self.assertEqual(DOWN, self.get()[0])
        self.network.hung.clear()
        self.follow('ACTIVE', 'ACTIVE', version=8)
        # It is the same one.
        self.assertEqual(DOWN, self.get()[0])
        self.follow('DEAD', 'ACTIVE', version=9)
        self.follow('ACTIVE', 'ACTIVE', version=10)
        self.run_for(3)
        self.assertEqual(UP, self.get()[0])

    def test_never(self):
        self.patience = 0
        self.begin()
        self.follow()
        self.network.hung.update(self.macs)
        self.run_for(60)
        self.assertEqual([], self.network.calls)
        self.assertEqual({0: UP, 1: UP, 2: UP}, self.get())


class TestProber(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.now = 1000.0
        self.network = Network()
        self.vips = Vips(self.network)
        for number, vip_id in enumerate(VIP_IDS):
            self.vips.documents[vip_id] = examples.make_document(
                members=['ACTIVE'] * 2, probe=PROBE)
        self.start()

    def start(self):
        self.results = results_.Results()
        self.prober = prober.Prober(self.vips, self.results, 1, 2,
                                    lambda: self.now)
        self.prober._selector = Selector(self)

    def run_for(self, seconds):
        end = self.now + seconds
        while self.now < end:
            self.prober.tick()

    def get(self):
        return {vip_id: {result.state for result in
                         self.results.get_of_vip(vip_id).values()}
                for vip_id in self.vips.documents}

    def test_all(self):
        self.run_for(1.2)
        self.assertEqual(dict.fromkeys(VIP_IDS, {UP}), self.get())
        # No two at once.
        self.assertEqual(4, len(self.network.lines))
        gone = VIP_IDS[0]
        del self.vips.documents[gone]
        self.run_for(1)
        self.assertEqual({}, self.results.get_of_vip(gone))
        self.assertEqual(1, sum(line.is_closed
                                for line in self.network.lines))

    def test_restart_of_the_process(self):
        """All is told anew, and that which nobody knows yet as such."""
        self.run_for(2)
        before = self.results.read(None, 0, 0)
        self.start()
        self.prober._follow()
        news = self.results.read(before.run, before.sequence, 0)
        self.assertTrue(news.is_whole)
        self.assertEqual({UNKNOWN}, {one.state for one in news.results})
        self.assertEqual(8, len(news.results))
        self.run_for(2)
        news = self.results.read(news.run, news.sequence, 0)
        self.assertFalse(news.is_whole)
        self.assertEqual({UP}, {one.state for one in news.results})

    def test_open_vswitch_is_away(self):
        self.run_for(2)
        self.network.is_down = True
        self.run_for(3)
        self.assertEqual(dict.fromkeys(VIP_IDS, {UP}), self.get())
        self.assertEqual({}, self.prober._selector.lines)
        self.network.is_down = False
        self.run_for(2)
        self.assertEqual(4, len(self.prober._selector.lines))
        self.assertEqual(1, self.log.output.count('not probed'))

    def test_a_flood(self):
        """Who sends without end is read once in a tick, others as ever."""
        line_of = {}

        class Flood(Heard):
            pass

        def flood(line):
            line.receive = lambda: (
                line_of.setdefault('reads', []).append(self.now) or
                Flood([b'x' * 60] * 300, [], True))
            line.waiting.frames.append(b'')

        self.run_for(2)
        flood(self.network.lines[0])
        before = self.now
        self.run_for(5)
        reads = line_of['reads']
        self.assertLessEqual(len(reads), (self.now - before) * 20 + 2)
        self.assertGreater(len(reads), 50)
        others = {vip_id for vip_id in VIP_IDS
                  if vip_id != self.network.lines[0].vip_id}
        self.network.silent = set(
            one.mac for one in self.vips.documents[VIP_IDS[0]].members)
        self.run_for(3)
        self.assertEqual({vip_id: {DOWN} for vip_id in others}, {
            vip_id: states for vip_id, states in self.get().items()
            if vip_id in others})

    def test_off(self):
        one = prober.Prober(self.vips, self.results, 0, 2)
        one.start()
        one.stop(1)
        self.assertEqual([], self.network.lines)

    @given(st.randoms(use_true_random=False))
    def test_any(self, chance):
        """VIPs come and go: nothing is left, nobody is forgotten."""
        self.now = 1000.0
        self.network = self.vips.network = Network()
        self.vips.documents = {}
        self.start()
        for _ in range(10):
            self.network.is_down = chance.random() < .2
            self.vips.documents = {
                vip_id: examples.make_document(
                    chance.randrange(1, 9), members=['ACTIVE'] * 2,
                    probe=PROBE)
                for vip_id in chance.sample(VIP_IDS, chance.randrange(5))}
            self.vips.pending = set(chance.sample(VIP_IDS,
                                                  chance.randrange(3)))
            self.run_for(chance.random() * 3)
        self.network.is_down, self.vips.pending = False, set()
        self.run_for(3)
        self.assertEqual(dict.fromkeys(self.vips.documents, {UP}),
                         self.get())
        self.assertEqual(len(self.vips.documents), sum(
            not line.is_closed for line in self.network.lines))

    def test_left_out(self):
        """The data plane is told once, and of nothing for a newer version."""
        self.run_for(3)
        mac = self.vips.documents[VIP_IDS[0]].members[0].mac
        self.network.silent.add(mac)
        self.run_for(15)
        self.assertEqual(
            {vip_id: (7, {examples.make_id(10)}) for vip_id in VIP_IDS},
            self.vips.left_out)
        self.vips.left_out.clear()
        self.run_for(15)
        self.assertEqual({}, self.vips.left_out)
        for vip_id in VIP_IDS:
            self.vips.documents[vip_id] = examples.make_document(
                8, ['ACTIVE'] * 2, probe=PROBE)
        self.run_for(5)
        self.assertEqual({}, self.vips.left_out)

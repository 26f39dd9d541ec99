# SPDX-License-Identifier: Apache-2.0

"""Which heartbeats show that an amphora uses the list it acknowledged."""

import dataclasses
import math

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import heartbeats
from tests.unit import base
from tests.unit.sync.rules import cases

INTERVAL = cases.SETTINGS.heartbeat_interval
TIMEOUT = cases.SETTINGS.heartbeat_timeout
LONG_AGO = 10000.0
UNKNOWN = adoption.Unknown(3)


def make_doubt(addresses, *previous, age=LONG_AGO):
    """Make a doubt from numbers of addresses."""
    return adoption.Doubt(cases.addresses(*addresses), tuple(
        other if isinstance(other, adoption.Unknown) else
        cases.addresses(*other) for other in previous), age)


class TestDoubt(base.TestCase):

    def test_others(self):
        """The same addresses in another order are no other list."""
        doubt = make_doubt((1, 2), (2, 1), (1, 3), UNKNOWN)
        self.assertEqual([cases.addresses(1, 3)], doubt.others)
        self.assertEqual([UNKNOWN], doubt.unknown)


class TestAcknowledged(base.TestCase):
    """What else it may be using when it has acknowledged list 9."""

    NUMBER = 7

    def after(self, addresses, *previous, is_certain=True, new=(9,)):
        use = adoption.Use(
            addresses and cases.addresses(*addresses),
            make_doubt((), *previous).previous, is_certain)
        return adoption.after_acknowledged(use, cases.addresses(*new),
                                           self.NUMBER)

    def assertLists(self, lists, after):
        self.assertEqual(set(make_doubt((), *lists).previous), set(after))

    def test_first_contact(self):
        for is_certain in (True, False):
            self.assertEqual((adoption.Unknown(7),), self.after(
                None, is_certain=is_certain))

    def test_adopted(self):
        self.assertLists([(1,)], self.after((1,)))
        self.assertLists([(1,), adoption.Unknown(7)],
                         self.after((1,), is_certain=False))

    def test_not_adopted(self):
        self.assertLists([(1,), (2,)], self.after((2,), (1,)))
        self.assertLists([(1,), (2,), adoption.Unknown(7)],
                         self.after((2,), (1,), is_certain=False))

    def test_same_list(self):
        self.assertEqual((), self.after((9,)))
        self.assertLists([(1,), UNKNOWN], self.after((9,), (1,), UNKNOWN))
        # Another one may have come in between.
        self.assertLists([(9,), adoption.Unknown(7)],
                         self.after((9,), is_certain=False))

    def test_same_addresses_in_another_order(self):
        """An amphora compares the lists as they are."""
        self.assertLists([(2, 1)], self.after((2, 1), new=(1, 2)))

    def test_one_unknown_stands_for_all(self):
        self.assertLists([(1,), adoption.Unknown(7)],
                         self.after((1,), UNKNOWN, is_certain=False))
        self.assertLists([(1,), UNKNOWN], self.after(
            (1,), adoption.Unknown(2), UNKNOWN))

    def test_unknown_of_any_time(self):
        """By now only older generations can be meant."""
        self.assertLists([(1,), adoption.Unknown(7)],
                         self.after((1,), adoption.Unknown()))

    def test_too_many(self):
        lists = [(n,) for n in range(10, 29)]
        self.assertLists([*lists, (1,)], self.after((1,), *lists))
        self.assertEqual((adoption.Unknown(7),),
                         self.after((1,), *lists, (30,)))
        # One that comes again does not count twice.
        self.assertLists([*lists, (1,)], self.after((1,), *lists, (1,)))


@st.composite
def _histories(draw):
    """Draw what happens to an amphora at each generation, and its lists."""
    number = draw(st.sampled_from((2, 60)))
    return draw(st.lists(
        st.tuples(st.sampled_from(('acknowledged', 'tried again', 'back',
                                   'failed', 'failed and arrived',
                                   'adopted')),
                  st.integers(0, number)) if number == 2 else
        st.tuples(st.sampled_from(('acknowledged', 'acknowledged', 'failed')),
                  st.integers(0, number)),
        min_size=draw(st.sampled_from((0, 40))), max_size=60))


class TestNoListIsLost(base.TestCase):
    """Against what the amphora can have in truth."""

    @given(_histories())
    def test_whatever_happens(self, history):
        # The generation of each list that it may be using; None is what it
        # booted with.
        in_truth = {(): 0}
        use = adoption.Use(None, (), is_certain=False)
        addresses = ()
        for number, (what, list_number) in enumerate(history, 1):
            if what == 'adopted':
                if use.addresses is not None and use.is_certain:
                    in_truth = {use.addresses: in_truth[use.addresses]}
                    use = dataclasses.replace(use, previous=())
                continue
            if what == 'back':
                addresses = use.addresses or addresses
            elif what != 'tried again':
                addresses = cases.addresses(list_number)
            if what == 'failed':
                use = dataclasses.replace(use, is_certain=False)
            elif what == 'failed and arrived':
                in_truth[addresses] = number
                use = dataclasses.replace(use, is_certain=False)
            else:
                in_truth[addresses] = number
                use = adoption.Use(
                    addresses, adoption.after_acknowledged(use, addresses,
                                                           number), True)
            self.assertCovered(in_truth, use)

    def assertCovered(self, in_truth, use):
        if not use.is_certain:
            # Whoever reads it takes into account that any may have arrived.
            return
        self.assertLessEqual(len(use.previous), 21)
        self.assertEqual(len(set(use.previous)), len(use.previous))
        unknown = [p.before for p in use.previous
                   if isinstance(p, adoption.Unknown)]
        for addresses, number in in_truth.items():
            self.assertTrue(
                addresses == use.addresses or addresses in use.previous or
                any(number < before for before in unknown),
                f'{addresses} of {number} is not in {use}')


class TestTimes(base.TestCase):

    def test_has_had_time(self):
        """One more heartbeat goes to the old list."""
        self.assertFalse(adoption.has_had_time(19.9, 10))
        self.assertTrue(adoption.has_had_time(20, 10))

    def test_round(self):
        self.assertEqual(50, adoption.time_for_round(2, 10))

    def test_overdue(self):
        self.assertEqual(180, adoption.time_to_wait(60))
        self.assertFalse(adoption.is_overdue(180, 60))
        self.assertTrue(adoption.is_overdue(180.1, 60))


class TestJudge(base.TestCase):

    def judge(self, doubt, observed=range(1, 10), was_heard=True):
        return adoption.judge(doubt, was_heard,
                              set(cases.addresses(*observed)), TIMEOUT)

    def test_it_may_still_show(self):
        self.assertIs(adoption.Adoption.PENDING,
                      self.judge(make_doubt((2,), (1,), age=180)))

    def test_not_adopted(self):
        for doubt in (make_doubt((2,), (1,)), make_doubt((1, 2), (1, 2, 3)),
                      make_doubt((1, 2), UNKNOWN)):
            self.assertIs(adoption.Adoption.NOT_ADOPTED, self.judge(doubt))

    def test_not_heard(self):
        self.assertIs(adoption.Adoption.UNPROVEN, self.judge(
            make_doubt((2,), (1,)), was_heard=False))

    def test_nobody_would_tell(self):
        """Who has adopted must not be taken for one who has not."""
        for doubt in (make_doubt((1, 2), (1,)), make_doubt((1, 2), UNKNOWN),
                      make_doubt((1, 2), (1, 2, 3), UNKNOWN),
                      make_doubt((1, 2), (1, 3), (1, 2, 3))):
            self.assertIs(adoption.Adoption.UNPROVEN,
                          self.judge(doubt, observed=(1, 3)))


class TestReceiver(base.TestCase):
    """Of two addresses of one health manager, 1 and 9."""

    def find(self, new, *previous, own=(1, 9)):
        found = adoption.find_receiver(make_doubt(new, *previous),
                                       cases.addresses(*own))
        return found and int(found.partition(':')[0].rpartition('.')[2])

    def test_only_one(self):
        for new, previous in (((1, 2), ()), ((2,), ((1,),)), ((2,), ())):
            self.assertEqual(1, self.find(new, *previous, own=(1,)))

    def test_what_its_lists_have(self):
        self.assertEqual(9, self.find((8, 9), (8,)))
        self.assertEqual(1, self.find((1, 2), (1, 2, 3)))
        self.assertEqual(9, self.find((8,), (8, 9)))
        self.assertEqual(1, self.find((8,), (7,)))
        self.assertEqual(9, self.find((8, 9), adoption.Unknown()))

    def test_it_may_have_changed_from_one_to_the_other(self):
        self.assertIsNone(self.find((8, 9), (1, 2)))
        self.assertIsNone(self.find((8, 9), (7, 8), (1, 2)))
        self.assertIsNone(self.find((1, 9)))


class TestReceivers(base.TestCase):

    def proven(self, doubt, *heard, period=None):
        """Heard at these addresses; somebody listens at all others, too."""
        return adoption.is_proven_by_receivers(
            doubt, cases.address(heard[-1]), set(cases.addresses(*heard)),
            period, INTERVAL)

    def test_address_that_only_the_new_list_holds(self):
        doubt = make_doubt((2, 3), (1, 2))
        self.assertTrue(self.proven(doubt, 3))
        self.assertFalse(self.proven(doubt, 2))
        self.assertFalse(self.proven(doubt, 1, 2))

    def test_addresses_were_only_dropped(self):
        """The turn of each comes sooner; a lost heartbeat proves nothing."""
        doubt = make_doubt((1, 2), (1, 2, 3))
        self.assertFalse(self.proven(doubt, 1))
        self.assertFalse(self.proven(doubt, 1, 2))
        self.assertFalse(self.proven(doubt, 1, period=30))
        self.assertTrue(self.proven(doubt, 1, period=20))
        self.assertTrue(self.proven(doubt, 1, period=22))
        self.assertFalse(self.proven(doubt, 1, period=40))

    def test_came_twice(self):
        doubt = make_doubt((1, 2), (1, 2, 3))
        for period in (0, 0.1, 4.9):
            self.assertFalse(self.proven(doubt, 1, period=period))
        self.assertTrue(self.proven(make_doubt((1,), (1, 2)), 1, period=10))

    def test_each_list_that_it_may_use_has_to_be_ruled_out(self):
        doubt = make_doubt((2, 3), (1, 2), (1, 3))
        self.assertFalse(self.proven(doubt, 2))
        self.assertFalse(self.proven(doubt, 3))
        self.assertTrue(self.proven(doubt, 2, 3))

    def test_flapping(self):
        """From 1, 2 to 1, 3 and back, none of them seen to be used."""
        doubt = make_doubt((1, 2), (1, 2), (1, 3))
        self.assertFalse(self.proven(doubt, 1))
        self.assertTrue(self.proven(doubt, 2))

    def test_same_addresses_in_another_order(self):
        self.assertTrue(self.proven(make_doubt((1, 2), (2, 1)), 1))

    def test_list_is_not_known(self):
        """Then it has to show the whole new list, and no more."""
        doubt = make_doubt((1, 2), UNKNOWN)
        self.assertFalse(self.proven(doubt, 1, 2))
        self.assertFalse(self.proven(doubt, 1, period=20))
        self.assertFalse(self.proven(doubt, 1, 2, period=30))
        self.assertTrue(self.proven(doubt, 1, 2, period=20))

    def test_some_lists_are_known(self):
        """An unknown list, and a known one of the same length."""
        doubt = make_doubt((1, 2), UNKNOWN, (1, 2, 3), (1, 4))
        self.assertFalse(self.proven(doubt, 1, 2, period=30))
        self.assertTrue(self.proven(doubt, 1, 2, period=20))

    def test_part_of_the_list_can_be_seen(self):
        """A pinned health manager need not have the plugin yet.

        Whether an unknown list holds 2, or any other address there, is not
        seen at 1.
        """
        self.assertFalse(adoption.is_proven_by_receivers(
            make_doubt((1, 2), UNKNOWN), cases.address(1),
            set(cases.addresses(1)), 20, INTERVAL))

    def test_heard_where_nobody_told_it_to_send(self):
        """Somebody else has configured it; that proves nothing."""
        doubt = make_doubt((2, 3), (1, 2))
        self.assertFalse(self.proven(doubt, 7))
        self.assertFalse(self.proven(doubt, 7, period=10))
        self.assertFalse(self.proven(doubt, 7, 2))


class TestWorthNoting(base.TestCase):

    def worth(self, doubt, number):
        return adoption.is_worth_noting(doubt, cases.address(number),
                                        INTERVAL)

    def test_old_address(self):
        self.assertTrue(self.worth(make_doubt((2, 3), (1, 2), age=20), 1))

    def test_heartbeat_elsewhere_will_prove_it(self):
        """Not one row for each amphora at each change."""
        self.assertFalse(self.worth(make_doubt((2, 3), (1, 2), age=50), 2))

    def test_heartbeat_elsewhere_does_not_come(self):
        self.assertTrue(self.worth(make_doubt((2, 3), (1, 2), age=51), 2))

    def test_addresses_were_only_dropped(self):
        self.assertTrue(self.worth(make_doubt((1, 2), (1, 2, 3), age=20), 1))

    def test_list_is_not_known(self):
        self.assertTrue(self.worth(make_doubt((1, 2), UNKNOWN, age=20), 1))


class TestGaps(base.TestCase):

    def left(self, doubt, listened, longest_gap=12.0, watched=LONG_AGO,
             known_before=(1, 2, 3), settings=cases.SETTINGS):
        """Return which lists are left, as numbers."""
        self.asked = []

        def get_known_before(number):
            self.asked.append(number)
            return set(cases.addresses(*known_before))

        left = adoption.rule_out_by_gaps(
            doubt, set(cases.addresses(*listened)), get_known_before,
            longest_gap, watched, settings)
        self.assertLessEqual(set(left), set(doubt.previous))
        return [p if isinstance(p, adoption.Unknown) else tuple(
            int(a.split(':')[0].split('.')[-1]) for a in p) for p in left]

    def test_nobody_listens_at_the_old_list(self):
        doubt = make_doubt((4, 5), (1, 2, 3))
        self.assertEqual([], self.left(doubt, (4, 5)))
        self.assertEqual([(1, 2, 3)], self.left(doubt, (4, 5), math.inf))

    def test_heard_too_regularly_for_the_old_list(self):
        doubt = make_doubt((3, 4), (1, 2, 3))
        self.assertEqual([], self.left(doubt, (3, 4), 24))
        self.assertEqual([(1, 2, 3)], self.left(doubt, (3, 4), 25))
        # Its gap has to have had a chance to show.
        self.assertEqual([], self.left(doubt, (3, 4), 24, 60))
        self.assertEqual([(1, 2, 3)], self.left(doubt, (3, 4), 24, 59))

    def test_everybody_listens(self):
        doubt = make_doubt((1, 2), (1, 2, 3))
        self.assertEqual([(1, 2, 3)], self.left(doubt, (1, 2, 3), 10))

    def test_one_list_after_the_other(self):
        doubt = make_doubt((4, 5), (1, 2), (1, 4))
        self.assertEqual([(1, 4)], self.left(doubt, (4, 5), 18))
        self.assertEqual([], self.left(doubt, (4, 5), 14))

    def test_same_addresses_in_another_order(self):
        self.assertEqual([], self.left(make_doubt((1, 2), (2, 1)), (1, 2)))

    def test_list_is_not_known(self):
        """Made of addresses that were known before, somehow."""
        doubt = make_doubt((4, 5), UNKNOWN)
        self.assertEqual([], self.left(doubt, (4, 5)))
        self.assertEqual([3], self.asked)
        self.assertEqual([UNKNOWN], self.left(doubt, (3, 4, 5)))
        self.assertEqual([UNKNOWN], self.left(doubt, (4, 5), math.inf))

    def test_some_lists_are_known(self):
        doubt = make_doubt((4, 5), UNKNOWN, (1, 4))
        self.assertEqual([(1, 4)], self.left(doubt, (4, 5), 18))
        self.assertEqual([UNKNOWN], self.left(doubt, (4, 5), 14,
                                              known_before=(1, 5)))
        self.assertEqual([], self.left(doubt, (4, 5), 14))

    def test_old_list_is_longer_than_any_now(self):
        """From before heartbeat_timeout was lowered.

        That two of its addresses are silent does not mean that all are.
        """
        settings = dataclasses.replace(cases.SETTINGS, heartbeat_timeout=30)
        self.assertEqual(2, settings.max_list_length)
        doubt = make_doubt((4, 5), (1, 2, 3, 4, 5))
        self.assertEqual([(1, 2, 3, 4, 5)], self.left(
            doubt, (3, 4, 5), 40, settings=settings))
        self.assertEqual([], self.left(doubt, (3, 4, 5), 12,
                                       settings=settings))


class Amphora:
    """Sends its heartbeats in turn, as health_sender does.

    :param boot: the list that it boots with.
    :param reads_again: whether its image has the fix of bug 2121691.
    """

    def __init__(self, boot, reads_again):
        self.file = self._read = self.using = boot
        self._turn = list(boot)
        self._reads_again = reads_again
        self._must_read = False

    def upload(self, addresses):
        self.file = addresses
        self._must_read = self._reads_again

    def restart(self):
        self._read = self.using = self.file
        self._turn = list(self.using)
        self._must_read = False

    def beat(self):
        """Return where the next heartbeat goes."""
        if self._read != self.using:
            self.using = self._read
            self._turn = list(self.using)
        address = self._turn.pop(0)
        self._turn.append(address)
        if self._must_read:
            self._read, self._must_read = self.file, False
        return address

    def has_adopted(self, addresses):
        return set(self.using) == set(addresses)


class Record:
    """What the plugin's tables say of the amphora, as the repository writes.

    :param known: the list that it is known to use, None if that is not known.
    """

    def __init__(self, known):
        self.addresses = known
        self.applied_at = -LONG_AGO
        self.adopted = self.is_certain = known is not None
        self.under_way = False
        self.previous = ()
        self.notes = {}

    def fail(self):
        """An upload that was not acknowledged, and may have arrived."""
        self.is_certain = False

    def acknowledge(self, addresses, now, number=UNKNOWN.before):
        if not (self.is_certain and self.addresses == addresses):
            old = () if self.addresses is None else (self.addresses,)
            self.previous = (
                (() if self.adopted else self.previous) + old +
                (() if self.is_certain else (adoption.Unknown(number),)))
            self.adopted = False
        self.addresses, self.applied_at = addresses, now
        self.is_certain = True

    @property
    def is_in_doubt(self):
        return self.addresses is not None and not self.adopted

    @property
    def may_use(self):
        """Doubt.previous, as get_unproven() has it."""
        return self.previous + (
            () if self.is_certain else (adoption.Unknown(),))

    def is_still(self, applied_at):
        """Whether no upload has come, or is coming, in between."""
        return (self.is_in_doubt and self.is_certain and
                not self.under_way and self.applied_at == applied_at)


class Observer:
    """One process of a health manager, that judges as AdoptionObserver."""

    def __init__(self, address, record):
        self._address = address
        self._record = record
        self._read_at = -math.inf
        self._seen = None

    def observe(self, now):
        """Take note of a heartbeat.

        :returns: the list that it is found to show, or None.
        """
        record = self._record
        if now - self._read_at >= INTERVAL / 2:
            self._read_at = now
            self._seen = None
            if record.is_in_doubt:
                self._seen = (record.addresses, record.may_use,
                              record.applied_at)
                self._notes = {a: t for a, t in record.notes.items()
                               if t > record.applied_at}
        if self._seen is None:
            return None
        addresses, previous, applied_at = self._seen
        doubt = adoption.Doubt(addresses, previous, now - applied_at)
        if not adoption.has_had_time(doubt.age, INTERVAL):
            return None
        heard = {a: now - t for a, t in self._notes.items()
                 if adoption.has_had_time(t - applied_at, INTERVAL)}
        period = heard.get(self._address)
        if adoption.is_proven_by_receivers(
                doubt, self._address, set(heard), period, INTERVAL):
            self._seen = None
            if record.is_still(applied_at):
                record.adopted = True
                record.notes.clear()
                return addresses
        elif adoption.is_worth_noting(doubt, self._address, INTERVAL):
            record.notes[self._address] = self._notes[self._address] = now
        return None


numbers = st.integers(1, 7)
lists = st.lists(numbers, min_size=1, max_size=5, unique=True).map(
    lambda chosen: cases.addresses(*sorted(chosen)))
# What happens between two heartbeats.
_nothing = st.just(('nothing', None))
events = st.one_of(
    _nothing, _nothing, _nothing,
    st.tuples(st.just('upload'), lists),
    st.tuples(st.sampled_from(['upload, no answer', 'begin upload']), lists),
    st.just(('end upload', None)),
    st.just(('restart', None)),
    st.tuples(st.just('listen'), st.sets(numbers, min_size=1)))


class Cloud:
    """One amphora, and the health managers that may hear it."""

    def __init__(self, boot, is_known, reads_again, listening):
        self.now = 0.0
        self.amphora = Amphora(boot, reads_again)
        self.record = Record(boot if is_known else None)
        self.listening = set(listening)
        self.adoptions = []
        self._observers = {
            (cases.address(n), process): Observer(cases.address(n),
                                                  self.record)
            for n in range(1, 10) for process in (0, 1)}

    def happen(self, event, argument):
        if event == 'listen':
            self.listening = set(cases.addresses(*argument))
        elif event == 'restart':
            self.amphora.restart()
        elif self.record.under_way:
            # One upload at a time; this one ends.
            self.record.acknowledge(self.amphora.file, self.now)
            self.record.under_way = False
        elif event in ('upload', 'upload, no answer', 'begin upload'):
            self.amphora.upload(argument)
            if event == 'upload':
                self.record.acknowledge(argument, self.now)
            elif event == 'begin upload':
                self.record.under_way = True
            else:
                self.record.fail()

    def beat(self, fate='arrives', process=0):
        """Have the amphora send a heartbeat."""
        address = self.amphora.beat()
        if address not in self.listening or fate == 'is lost':
            return
        self._hear(address, process)
        if fate == 'arrives twice':
            self.now += 0.3
            self._hear(address, 1 - process)
            self.now -= 0.3

    def _hear(self, address, process):
        shown = self._observers[address, process].observe(self.now)
        if shown is not None:
            self.adoptions.append(
                (shown, self.amphora.has_adopted(shown)))


beats = st.tuples(
    st.floats(1, 1.099), st.sampled_from(
        ['arrives', 'arrives', 'arrives', 'is lost', 'arrives twice']),
    st.sampled_from([0, 0, 1]), st.floats(0, 1), events)


class TestEveryHistory(base.TestCase):
    """One amphora, heartbeat by heartbeat."""

    @hypothesis_settings(max_examples=500)
    @given(lists, st.booleans(), st.booleans(), st.sets(numbers, min_size=1),
           st.lists(beats, min_size=10, max_size=60))
    def test_who_is_found_to_have_adopted_has(
            self, boot, is_known, reads_again, listening, beats):
        """Whatever its image, and whatever becomes of its heartbeats."""
        cloud = Cloud(boot, is_known, reads_again,
                      cases.addresses(*listening))
        for jitter, fate, process, when, (event, argument) in beats:
            length = jitter * INTERVAL
            cloud.now += when * length
            cloud.happen(event, argument)
            cloud.now += (1 - when) * length
            cloud.beat(fate, process)
            self.assertNotIn(False, [ok for _, ok in cloud.adoptions])

    @hypothesis_settings(max_examples=300)
    @given(lists, st.booleans(), st.lists(st.tuples(events, st.floats(0, 1)),
                                          max_size=10),
           lists, st.sets(numbers),
           st.lists(st.tuples(st.floats(1, 1.099),
                              st.sampled_from(['arrives', 'arrives twice']),
                              st.sampled_from([0, 1])),
                    min_size=20, max_size=20))
    def test_image_with_the_fix_is_found_out_in_time(
            self, boot, is_known, history, newest, others, beats):
        """From a list that is known and from one that is not.

        As long as its heartbeats arrive, at all addresses of its new list.
        """
        cloud = Cloud(boot, is_known, True, cases.addresses(*range(1, 8)))
        for (event, argument), when in history:
            cloud.now += when * INTERVAL
            cloud.happen(event, argument)
            cloud.now += (1 - when) * INTERVAL
            cloud.beat()
        cloud.listening = {*newest, *cases.addresses(*others)}
        if cloud.record.under_way:
            cloud.happen('end upload', None)
        cloud.happen('upload', newest)
        for jitter, fate, process in beats:
            cloud.now += jitter * INTERVAL
            if cloud.now - cloud.record.applied_at > (
                    adoption.time_to_wait(TIMEOUT)):
                break
            cloud.beat(fate, process)
        self.assertTrue(cloud.record.adopted)


SAMPLING = 2
OFFLINE_AFTER = cases.SETTINGS.offline_after


class Watcher:
    """Looks at amphora_health.last_update, as AdoptionWatch does.

    :param amphora: an Amphora, without listeners: nobody notes its
                    heartbeats.
    :param boots_with: addresses of lists from before the plugin.
    """

    def __init__(self, amphora, record, boots_with, clocks):
        self.now = 0.0
        self.amphora = amphora
        self.record = record
        self.adoptions = []
        self._published = [set(boots_with)]
        self._clocks = clocks
        self._listening = {}
        self._last_update = None
        self._watch = heartbeats.HeartbeatWatch()

    def listen(self, addresses):
        """Have somebody listen at these addresses, and nobody elsewhere."""
        for address in set(self._listening) | set(addresses):
            if address in addresses:
                self._listening[address] = math.inf
            elif self._listening[address] == math.inf:
                self._listening[address] = self.now

    def happen(self, event, argument):
        if event == 'listen':
            self.listen(cases.addresses(*argument))
        elif event == 'restart':
            self.amphora.restart()
        elif event in ('upload', 'upload, no answer'):
            self._published.append(set(argument))
            self.amphora.upload(argument)
            if event == 'upload':
                self.record.acknowledge(argument, self.now,
                                        len(self._published) - 1)
            else:
                self.record.fail()

    def beat(self, fate):
        address = self.amphora.beat()
        if fate != 'is lost' and self._listening.get(address) == math.inf:
            # Whole seconds, by the clock of whoever receives it.
            self._last_update = int(self.now + self._clocks[address])

    def look(self):
        record = self.record
        if not record.is_in_doubt or not adoption.has_had_time(
                self.now - record.applied_at, INTERVAL):
            self._watch.sample(self.now, {})
            return
        key = record.applied_at
        # One that was killed is not missed at once.
        self._watch.sample(self.now, {key: self._last_update}, [
            a for a, ended in self._listening.items()
            if self.now - ended <= OFFLINE_AFTER])
        if not self._watch.was_heard(key):
            return
        left = adoption.rule_out_by_gaps(
            adoption.Doubt(record.addresses, record.may_use,
                           self.now - record.applied_at),
            self._watch.listened(key),
            lambda number: set().union(*self._published[:number]),
            self._watch.longest_gap(key), self._watch.watched_for(key),
            cases.SETTINGS)
        if not record.is_still(key):
            return
        record.previous = left
        if not left:
            record.adopted = True
            self.adoptions.append(self.amphora.has_adopted(record.addresses))


_watched_events = st.one_of(
    _nothing, _nothing, _nothing, _nothing, _nothing,
    st.tuples(st.sampled_from(['upload', 'upload', 'upload, no answer']),
              lists),
    st.just(('restart', None)),
    st.tuples(st.just('listen'), st.sets(numbers, min_size=1)))
_watched_beats = st.tuples(
    st.floats(1, 1.099), st.sampled_from(
        ['arrives', 'arrives', 'arrives', 'arrives', 'is lost']),
    st.integers(0, 4), _watched_events)
clocks = st.lists(st.floats(-300, 300), min_size=7, max_size=7).map(
    lambda skews: dict(zip(cases.addresses(*range(1, 8)), skews)))


class TestEveryHistoryOfGaps(base.TestCase):
    """One amphora without listeners, look by look."""

    def run_to(self, watcher, until, beats):
        """Let time pass.

        :param beats: pairs of a time and a fate, in order.
        """
        looks = [SAMPLING * n for n in range(
            math.floor(watcher.now / SAMPLING) + 1,
            math.floor(until / SAMPLING) + 1)]
        for at, fate in sorted([*beats, *((at, None) for at in looks)],
                               key=lambda step: step[0]):
            watcher.now = at
            if fate:
                watcher.beat(fate)
            else:
                watcher.look()
        watcher.now = until

    @hypothesis_settings(max_examples=300)
    @given(lists, st.booleans(), st.booleans(), st.sets(numbers, min_size=1),
           clocks, st.lists(_watched_beats, min_size=15, max_size=50))
    def test_who_is_found_to_have_adopted_has(
            self, boot, is_known, reads_again, listening, clocks, beats):
        """Whatever its image; controllers' clocks may be minutes apart."""
        watcher = Watcher(Amphora(boot, reads_again),
                          Record(boot if is_known else None), boot, clocks)
        watcher.listen(cases.addresses(*listening))
        sent = 0.0
        for jitter, fate, look, (event, argument) in beats:
            # What happens, happens between two looks.
            self.run_to(watcher, sent + look * SAMPLING + 0.1, [])
            watcher.happen(event, argument)
            sent += jitter * INTERVAL
            self.run_to(watcher, sent, [(sent, fate)])
            self.assertNotIn(False, watcher.adoptions)

# SPDX-License-Identifier: Apache-2.0

"""Short forms of the benchmarks: what comes of them, never how long it takes.
"""

from oslotest import base

from benchmarks import changes
from benchmarks import cluster
from benchmarks import deaths
from benchmarks import faults
from benchmarks import keeper
from benchmarks import libraries
from benchmarks import probes
from benchmarks import rollout
from benchmarks import steady
from benchmarks import sync
from benchmarks import update
from benchmarks import upload


class TestUpload(base.BaseTestCase):

    def test_each_contender(self):
        rows = {row['contender']: row for row in
                upload.run(amphorae=200, upstream=2, rounds=1)}
        self.assertEqual({'bare', 'hmsync', 'upstream'}, set(rows))
        self.assertEqual(0, rows['bare']['statements'])
        # None is made for each amphora: all are of batches, and of looks, ten
        # in a second.
        self.assertLess(rows['hmsync']['statements'],
                        0.5 + 15 * rows['hmsync']['wall_ms'] / 1000)
        self.assertGreaterEqual(rows['upstream']['statements'], 10)


class TestSync(base.BaseTestCase):

    def test_two_housekeepers_and_some_that_ail(self):
        """They share the work, and those that hang keep nobody waiting."""
        row = sync.Run(
            amphorae=120, housekeepers=2, ailing_percent=5, heartbeats=20,
            interval=1, answer_after=1.5, options={'hmsync': {
                'batch_size': 8, 'upload_concurrency': 16}}).measure()
        self.assertEqual((120, 6), (row['amphorae'], row['ailing']))
        self.assertEqual(0, row['failovers'])
        self.assertGreaterEqual(row['proven'],
                                row['heartbeating'] - row['ailing'])
        self.assertLess(row['memory_mb'], 150)
        # Nobody was left with half a request.
        self.assertEqual(0, row['aborted'])
        self.assertEqual(2, len(row['shares']))
        self.assertGreater(min(row['shares']), 0)


class TestSteady(base.BaseTestCase):

    def test_statements_do_not_grow_with_the_fleet(self):
        small, large = (steady.run(amphorae, True, minutes=0.15, settle=2)
                        for amphorae in (100, 1000))
        # Of either there were about as many; on a busy machine not quite.
        small, large = (row['statements'] / row['heartbeats']
                        for row in (small, large))
        self.assertGreater(small, 0)
        self.assertLess(large, 1.5 * small)


class TestRollout(base.BaseTestCase):

    def test_statements_do_not_grow_with_the_fleet(self):
        rows = [row for number in (20, 400)
                for row in rollout.run(number, rounds=1)]
        self.assertEqual([0, 10, 0, 200], [row['done'] for row in rows])
        self.assertEqual(1, len({row['statements'] for row in rows}))
        # The ten of the first one that are left are excluded.
        self.assertEqual([10, 0, 20, 20], [row['begin'] for row in rows])


class TestCluster(base.BaseTestCase):

    def test_two_carry_more_than_one(self):
        for _ in range(3):
            alone, one, two = cluster.measure_rates(
                (1, 2), rate=40, seconds=3, clients=16)
            # A busy machine may be what is slow.
            if one['to_one'] > 0.5 and two['to_one'] > 1.3:
                break
        self.assertEqual(['nobody', 'a distributor', 'a distributor'],
                         [row['behind'] for row in (alone, one, two)])
        self.assertGreater(one['to_one'], 0.5)
        self.assertGreater(two['to_one'], 1.3)

    def test_what_breaks(self):
        rows = {(row['way'], row['event']): row for row in
                cluster.measure_broken(60, 3)}
        for event in (cluster.ADD, cluster.DRAIN, cluster.KILL_DISTRIBUTOR):
            self.assertEqual(0, rows[cluster.PINS, event]['broken'], event)
        killed = rows[cluster.PINS, cluster.KILL]
        self.assertGreater(killed['broken'], 0)
        self.assertEqual(0, killed['not_its_own'])
        # What a distributor without a memory does.
        self.assertGreater(rows[cluster.NO_PINS, cluster.ADD]['broken'], 0)

    def test_vips(self):
        row = cluster.measure_vips(5)
        self.assertEqual(5, row['vips'])


class TestChanges(base.BaseTestCase):

    def test_no_connection_is_split(self):
        """All of each new connection comes to one member."""
        for event, learns in ((changes.ADD, False), (changes.REPLACE, False),
                              (changes.ADD, True), (changes.REPLACE, True)):
            before, after, over = rows = changes.measure(
                40, event, kept=40, seconds=2, settle=1, learns=learns)
            self.assertEqual(['before', 'after', 'over'],
                             [row['when'] for row in rows])
            for row in rows:
                self.assertEqual(0, row['split'], row)
                # With the clock put forward one that is late is forgotten.
                self.assertLessEqual(row['when'] != 'over' and row['lost'], 1,
                                     row)
                self.assertGreater(row['passed'], 0.5)
            # Of no more connections than there are.
            self.assertEqual(0, before['pins'])
            if learns:
                self.assertLess(0, after['pins'])
            self.assertLess(after['pins'], 400)
            self.assertLess(over['pins'], 400)


class TestFaults(base.BaseTestCase):

    def test_open_ones_stay(self):
        for row in faults.measure(minutes=0.5, rate=20, kept=40, parts=1,
                                  pause=2):
            # One of the two copies may come before the others are counted.
            self.assertLessEqual(row['lost'] + row['split'], 1, row)
            self.assertGreater(row['passed'], 0.5)


class TestDeaths(base.BaseTestCase):

    def test_standby(self):
        """One that waits takes the place of a dead member."""
        row, = deaths.measure(size=2, deaths=1, after=10)
        self.assertLessEqual(row['unregistered_s'], row['whole_s'])
        self.assertEqual(2, len(row['answered']), row)
        self.assertNotIn(row['victim'], row['answered'])
        self.assertIn('m2', row['answered'])
        self.assertGreater(row['asked'], row['failed'])


class TestLooks(base.BaseTestCase):

    def test_all_are_seen(self):
        row = probes.measure(2, seconds=1, settle=4)
        self.assertEqual((8, 0), (row['up'], row['false_down']))
        # Which is when it gives up.
        self.assertLess(row['told_s'], 30)


class TestUpdate(base.BaseTestCase):

    def test_all_take_it(self):
        one, three = update.measure(update.SIMULATED, (1, 3), updates=2,
                                    answer_after=0)
        self.assertEqual([1, 3], [one['members'], three['members']])


class TestKeeper(base.BaseTestCase):

    def test_rows_do_not_grow_with_the_clusters_at_rest(self):
        small, large = ({row['probe']: row for row in
                         keeper.measure(number, looks=3)}
                        for number in (150, 450))
        for row in (small, large):
            self.assertEqual(
                [0, 0, 1], [row[look]['due'] for look in
                            (keeper.ALL, keeper.REST, keeper.DEATH)])
        for look in (keeper.REST, keeper.DEATH):
            self.assertLess(large[look]['rows_read'],
                            1.2 * small[look]['rows_read'])
            self.assertEqual(large[look]['statements'],
                             small[look]['statements'])
        # As much as there are, otherwise.
        self.assertGreater(large[keeper.ALL]['rows_read'],
                           2 * small[keeper.ALL]['rows_read'])

    def test_process(self):
        row = keeper.measure_process(5, seconds=6, settle=2)
        self.assertGreater(row['statements'], 0)
        self.assertNotIn('Traceback', row['log'])


class TestLibraries(base.BaseTestCase):
    """That the reasons hold for which the plugin does some things itself."""

    def test_clients_who_never_ask(self):
        ours, library = libraries.run_exporter(silent=60, wait=0)
        # The library's queue is short: on a busy machine, some clients are
        # still waiting in it.
        self.assertLess(ours['threads'], 30)
        self.assertGreater(library['threads'], 30)

    def test_calls_that_fail(self):
        ours, library = libraries.run_periodic(seconds=1)
        # One traceback, and one warning.
        self.assertLess(ours['log_lines'], 20)
        self.assertGreater(library['log_lines'], 60)

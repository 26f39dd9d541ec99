# SPDX-License-Identifier: Apache-2.0

"""Several writers: three Galera nodes, each of which takes everything.

What two controllers do at the same moment, each at a node of its own, has to
come to what it comes to on one server.
"""

from concurrent import futures
import copy
import itertools
import subprocess
import sys
import threading
import time

import fixtures
from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.cluster.db import claim as cluster_claim
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import lock as cluster_lock
from octavia_hmsync.cluster.db import member as cm_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.sync.cli import drain
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import batch
from octavia_hmsync.sync.worker import scout
from tests.cloud import database
from tests.cloud import galera
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import waiting
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.image import calls as image_calls
from tests.db_cases.image import rollout as image_rollout
from tests.db_cases.sync import amphora
from tests.db_cases.sync import health_manager
from tests.db_cases.sync import published
from tests.functional.db import mariadb

OFFLINE_AFTER = 30
LIST = {'192.0.2.101:5555': 0}
ROUNDS = 12


class GaleraTestCase(base.DatabaseTestCase):
    """With an engine for each node."""

    @classmethod
    def get_database(cls):
        cls.cluster = galera.shared_cluster()
        return mariadb.shared_database(cls.cluster.nodes[0])

    def setUp(self):
        super().setUp()
        self.engines = [self.make_engine(node) for node in self.cluster.nodes]

    def make_engine(self, node, **options):
        engine = api.create_engine(self.make_conf(database={
            'connection': node.url(self.database.name), **options}))
        self.addCleanup(engine.dispose)
        return engine

    def at_once(self, function, *arguments):
        """Call a function at each node at once, with an argument for each."""
        return self.run_at_once([
            lambda e=engine, a=argument: function(e, *a)
            for engine, argument in zip(self.engines, arguments)])

    def register(self, engine, host, ip='192.0.2.1'):
        hm_repo.register(engine, host, ip, 5555, 'a', OFFLINE_AFTER)

    def members(self):
        return {m.host: m for m in hm_repo.get_all(self.engine)}


class TestAtOnce(GaleraTestCase):
    """Of several who want the same one gets it, and the others see that."""

    def check_one_wins(self, function, argument=lambda number: ()):
        for number in range(1, ROUNDS + 1):
            answers = self.at_once(function, *[argument(number)] * 3)
            self.assertEqual([False, False, True], sorted(answers), number)

    def test_publish(self):
        self.check_one_wins(
            generation_repo.publish, lambda n: (n, LIST, 'test', 'hk'))
        self.assertEqual(
            [*range(1, ROUNDS + 1)],
            [g.number for g in generation_repo.get_history(self.engine)])

    def on_trial(self, number):
        generation_repo.publish(self.engine, number, LIST, 'test', 'hk',
                                trial.CANARY)

    def test_begin_wave(self):
        self.on_trial(1)
        self.check_one_wins(generation_repo.begin_wave,
                            lambda n: (1, n - 1, trial.CANARY))

    def test_set_open(self):
        def set_open(engine, number):
            return generation_repo.set_open(engine, number)

        def argument(number):
            self.on_trial(number)
            return (number,)

        self.check_one_wins(set_open, argument)

    def test_roll_back(self):
        def argument(number):
            self.on_trial(2 * number)
            return 2 * number, [*LIST], LIST, 'test', 'hk'

        self.check_one_wins(generation_repo.roll_back, argument)

    def test_row_that_a_claim_adds(self):
        owners = ('a',), ('b',), ('c',)
        for number, repo in itertools.product(range(ROUNDS),
                                              (network_repo, port_repo)):
            answers = self.at_once(
                lambda e, owner, n=number, repo=repo: repo.claim(
                    e, f'h{n}', owner, 60), *owners)
            self.assertEqual([False, False, True], sorted(answers))

    def test_register(self):
        """One address, several hosts."""
        def register(engine, host, ip):
            try:
                self.register(engine, host, ip)
            except exceptions.AddressConflict:
                return False
            return True

        for number in range(ROUNDS):
            answers = self.at_once(register, *[
                (f'{name}{number}', f'192.0.2.{number}') for name in 'abc'])
            self.assertEqual([False, False, True], sorted(answers))

    def test_register_as_one_host(self):
        for number in range(ROUNDS):
            self.at_once(self.register, *[(f'hm{number}', f'192.0.2.{n}')
                                          for n in (1, 2, 3)])
            hm_repo.delete(self.engine, f'hm{number}',
                           hm_repo.get_rows(self.engine)[0].keepalive_at)

    def test_drain(self):
        """Neither of the last ones drains for the other's sake."""
        def begin(engine, host):
            try:
                drain.begin(engine, host, 3600)
            except exceptions.NotPossible:
                return False
            return True

        for number in range(1, 4):
            self.register(self.engine, f'hm{number}', f'192.0.2.{number}')
        for number in range(4 * ROUNDS):
            with self.subTest(round=number):
                self.at_once(begin, ('hm1',), ('hm2',), ('hm3',))
                statuses = [m.status for m in self.members().values()]
                self.assertEqual(1, statuses.count(member.ONLINE))
                for host in ('hm1', 'hm2', 'hm3'):
                    hm_repo.change_status(self.engine, host, member.DRAINING,
                                          member.ONLINE)

    def test_pause(self):
        for _ in range(ROUNDS):
            self.at_once(pause_repo.begin, *[(60, name) for name in 'abc'])
            self.assertEqual(1, len(self.rows(models.Pause)))
            self.at_once(pause_repo.end, (), (), ())
            self.assertEqual([], self.rows(models.Pause))

    def test_housekeepers_of_one_host(self):
        for number in range(ROUNDS):
            self.at_once(keeper_repo.touch, *[(f'hk{number}', ())] * 3)
        self.assertEqual(ROUNDS, len(self.rows(models.HouseKeeper)))


class TestImagesAtOnce(GaleraTestCase):
    """Of several housekeepers, and operators, that decide the same one does.

    None of them is told of a conflict: it has lost, or comes after.
    """

    def start(self, engine, rollout_id):
        return rollout_repo.add(engine, rollout_id, image_calls.SETTINGS)

    def cancel(self, rollout_id):
        rollout_repo.change_state(self.engine, rollout_id,
                                  rollout_repo.ACTIVE_STATES, 'CANCELLED')

    def begin(self, engine, rollout_id, version, *new, owner='one'):
        begun = claims_repo.begin(engine, rollout_id, version, new, owner,
                                  600)
        return begun is not None and len(begun)

    def new(self, name, load_balancer_id):
        return replace_repo.New(name, load_balancer_id, 'replace', 'image')

    def test_start(self):
        for number in range(ROUNDS):
            ids = [f'rollout{number}{name}' for name in 'abc']
            started = self.at_once(self.start, *[(i,) for i in ids])
            self.assertEqual([False, False, True], sorted(started))
            self.cancel(ids[started.index(True)])

    def test_begin(self):
        """The same load balancers, and others, for the same version."""
        self.start(self.engine, 'rollout')
        for number in range(ROUNDS):
            begun = self.at_once(self.begin, *[
                ('rollout', number, self.new(f'{name}{number}', f'lb{number}'),
                 self.new(f'{name}{number}x', f'lb{name}{number}'))
                for name in 'abc'])
            self.assertEqual([False, False, 2], sorted(begun))
        self.assertEqual(2 * ROUNDS, len(replace_repo.get_open(self.engine)))

    def test_begin_what_operators_ask_for(self):
        """Each load balancer has one that is open, whoever was first."""
        self.start(self.engine, 'rollout')

        def run(engine, kind, number):
            if kind == 'rollout':
                return self.begin(engine, 'rollout', number,
                                  self.new(f'r{number}', f'lb{number}'))
            return replace_repo.add(engine, self.new(f'{kind}{number}',
                                                     f'lb{number}'))

        for number in range(ROUNDS):
            begun = self.at_once(run, *[
                (kind, number) for kind in ('rollout', 'a', 'b')])
            # One that has nothing to begin has decided, too.
            self.assertIsNot(False, begun[0])
            self.assertEqual(1, sum(map(int, begun)), begun)
        open_ = replace_repo.get_open(self.engine)
        self.assertEqual(sorted({f'lb{n}' for n in range(ROUNDS)}),
                         sorted(r.load_balancer_id for r in open_))

    def test_begin_while_somebody_excludes_or_pauses(self):
        """Whoever comes second knows of the first."""
        self.start(self.engine, 'rollout')
        for number in range(ROUNDS):
            version = rollout_repo.get_active(self.engine).version

            def run(engine, kind, number=number, version=version):
                if kind == 'begin':
                    return self.begin(engine, 'rollout', version, self.new(
                        f'r{number}', f'lb{number}'))
                if kind == 'exclude':
                    return exclusion_repo.add(engine, f'id{number}', 'ZONE',
                                              f'az{number}', 'because')
                return rollout_repo.change_state(
                    engine, 'rollout', ('RUNNING',), 'PAUSED')

            begun, _, paused = self.at_once(run, *[
                (kind,) for kind in ('begin', 'exclude', 'pause')])
            self.assertTrue(paused)
            found = rollout_repo.get_active(self.engine)
            # Each has counted it up; what began was the first of them.
            self.assertEqual(version + 2 + bool(begun), found.version)
            rollout_repo.change_state(self.engine, 'rollout', ('PAUSED',),
                                      'RUNNING')

    def test_claim(self):
        """No replacement has two owners, and none is left."""
        for number in range(ROUNDS):
            replace_repo.add(self.engine, self.new(f'r{number}',
                                                   f'lb{number}'))

        def claim(engine, name):
            claimed, calls = [], 0
            while calls < 200 and any(r.state == 'WAITING' for r in
                                      replace_repo.get_open(engine)):
                calls += 1
                claimed += [r.id for r in claims_repo.claim(
                    engine, f'{name}{calls}', 2, 600)]
            return claimed

        claimed = sum(self.at_once(claim, ('a',), ('b',), ('c',)), [])
        self.assertEqual(sorted(f'r{n}' for n in range(ROUNDS)),
                         sorted(claimed))

    def test_claim_while_it_is_cancelled(self):
        for number in range(ROUNDS):
            replace_repo.add(self.engine, self.new(f'r{number}',
                                                   f'lb{number}'))

            def run(engine, kind, number=number):
                if kind == 'cancel':
                    return cancel_repo.cancel(engine, f'r{number}', 'no')
                return bool(claims_repo.claim(engine, f'{kind}{number}', 10,
                                              600))

            *claimed, cancelled = self.at_once(run, ('a',), ('b',),
                                               ('cancel',))
            # What one has claimed is asked to go back.
            self.assertEqual(
                replace_repo.RUNNING if any(claimed)
                else replace_repo.CANCELLED, cancelled)
            self.assertLess(sum(claimed), 2)

    def test_end_that_everybody_decides(self):
        for number in range(ROUNDS):
            self.start(self.engine, f'rollout{number}')
            ended = self.at_once(rollout_repo.end, *[
                (f'rollout{number}', 0, 'DONE', 'all done')] * 3)
            self.assertEqual([False, False, True], sorted(ended))

    def test_exclude(self):
        for number in range(ROUNDS):
            self.at_once(exclusion_repo.add, *[
                (f'{name}{number}', 'ZONE', f'az{number}', name)
                for name in 'abc'])
        self.assertEqual(ROUNDS, len(exclusion_repo.get_all(self.engine)))


class TestClustersAtOnce(GaleraTestCase):
    """Of several managers of clusters that decide the same one does it."""

    SLOTS = 8

    def setUp(self):
        super().setUp()
        self.lb = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.cluster_id = self.add('cluster', load_balancer_id=self.lb)

    def add(self, cluster_id, **values):
        cluster_repo.add(self.engine, cluster_calls.new(
            id=cluster_id, desired_size=self.SLOTS, **values))
        cluster_repo.set_status(self.engine, cluster_id, 'ACTIVE')
        return cluster_id

    def get_version(self):
        return cluster_repo.get(self.engine, self.cluster_id).version

    def get_slots(self):
        """{id of a member: (its slot, its state)}"""
        return {each.id: (each.slot, each.state) for each in
                cm_repo.get_of_cluster(self.engine, self.cluster_id)}

    def add_members(self, *ids, size=SLOTS, state='ACTIVE'):
        for each in ids:
            cm_repo.add(self.engine, self.cluster_id, each, size)
            cm_repo.set_state(self.engine, each, ('BUILDING',), state)

    def test_add(self):
        """Of one load balancer there is one cluster."""
        for number in range(ROUNDS):
            answers = self.at_once(
                lambda e, name, n=number: cluster_repo.add(
                    e, cluster_calls.new(id=f'{name}{n}',
                                         load_balancer_id=f'lb{n}')),
                ('a',), ('b',), ('c',))
            self.assertEqual([False, False, True], sorted(answers))

    def test_claim(self):
        for number in range(ROUNDS):
            answers = self.at_once(
                lambda e, owner: cluster_claim.claim(
                    e, self.cluster_id, owner, 60),
                *[(f'{name}{number}',) for name in 'abc'])
            self.assertEqual([False, False, True], sorted(answers))
            owner = f'{"abc"[answers.index(True)]}{number}'
            self.assertEqual(owner, cluster_repo.get(
                self.engine, self.cluster_id).claimed_by)
            # Whoever has lost it does nothing any more, at whichever node.
            renewed = self.at_once(
                lambda e, who: cluster_claim.renew(
                    e, self.cluster_id, who, 60),
                *[(f'{name}{number}',) for name in 'abc'])
            self.assertEqual(answers, renewed)
            self.assertTrue(cluster_claim.release(
                self.engines[number % 3], self.cluster_id, owner))

    def test_claim_that_lapsed(self):
        """It is renewed, or another one has it, and never both."""
        for number in range(ROUNDS):
            owners = [f'{name}{number}' for name in 'abc']
            cluster_claim.claim(self.engine, self.cluster_id, owners[0], -1)
            answers = self.run_at_once([
                lambda: cluster_claim.renew(
                    self.engines[0], self.cluster_id, owners[0], 60),
                *[lambda e=engine, o=owner: cluster_claim.claim(
                    e, self.cluster_id, o, 60)
                  for engine, owner in zip(self.engines[1:], owners[1:])]])
            self.assertEqual([False, False, True], sorted(answers))
            cluster_claim.release(self.engine, self.cluster_id,
                                  owners[answers.index(True)])

    def test_lock(self):
        """Octavia's lock goes to one, who has the claim."""
        cluster_claim.claim(self.engine, self.cluster_id, 'a', 60)

        def lock(engine, owner):
            try:
                return cluster_lock.lock(engine, self.cluster_id, owner, 60)
            except exceptions.Lost:
                return None

        for _ in range(ROUNDS):
            answers = self.at_once(lock, ('a',), ('b',), ('c',))
            self.assertEqual([True, None, None], answers)
            cluster_lock.unlock(self.engine, self.cluster_id, 'a', 60)

    def test_slots(self):
        """Members that are added at once have slots of their own."""
        for number in range(ROUNDS):
            names = [f'{name}{number}' for name in 'abc']
            # One of the three is refused, as there is no third place.
            added = self.at_once(
                lambda e, name: cm_repo.add(e, self.cluster_id, name, 2),
                *[(name,) for name in names])
            self.assertEqual([0, 1], sorted(
                each.slot for each in added if each))
            for name in names:
                cm_repo.delete(self.engine, name)

    def test_take_over(self):
        """Three that stand by, one slot: whoever has it has it alone."""
        self.add_members('old')
        for number in range(ROUNDS):
            names = [f'{name}{number}' for name in 'abc']
            self.add_members(*names, size=0, state='STANDBY')
            version = self.get_version()
            answers = self.at_once(
                lambda e, name, v=version: cm_repo.take_over_slot(
                    e, name, 'old', version=v), *[(name,) for name in names])
            self.assertEqual([False, False, True], sorted(answers))
            # Of what was decided at that version nothing else is done.
            self.assertEqual(version + 1, self.get_version())
            slots = self.get_slots()
            winner = names[answers.index(True)]
            self.assertEqual((0, 'ACTIVE'), slots[winner])
            self.assertEqual((None, 'DRAINING'), slots['old'])
            self.assertEqual([0], [slot for slot, _ in slots.values()
                                   if slot is not None])
            cm_repo.take_over_slot(self.engine, 'old', winner)
            for name in names:
                cm_repo.delete(self.engine, name)

    def test_drain(self):
        """Each decided that one may go: one does, down to the minimum."""
        for number in range(ROUNDS):
            names = [f'{name}{number}' for name in 'abc']
            self.add_members(*names)
            version = self.get_version()
            answers = self.at_once(
                lambda e, name, v=version: cm_repo.drain(e, name, v),
                *[(name,) for name in names])
            self.assertEqual([False, False, True], sorted(answers))
            for name in names:
                cm_repo.unregister(self.engine, name)
                cm_repo.delete(self.engine, name)

    def test_active_distributor(self):
        """There is one at each moment, whoever moves the VIP."""
        found = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER,
            {**cluster_calls.DISTRIBUTORS, 'network3': 'https://n3:9444'})
        for each in found:
            vip_repo.add(self.engine, self.cluster_id, each.id)
        for _ in range(ROUNDS):
            version = self.get_version()
            self.at_once(
                lambda e, one, v=version: vip_repo.set_active(
                    e, self.cluster_id, one, v), *[(d.id,) for d in found])
            self.assertEqual(1, sum(vip.active for vip in (
                vip_repo.get_of_cluster(self.engine, self.cluster_id))))

    def test_probes(self):
        """Several that see the same: it is said once."""
        self.add_members('one', 'two')
        for number in range(ROUNDS):
            looks = {each: probe_repo.Result(('DOWN', 'UP')[number % 2])
                     for each in ('one', 'two')}
            answers = self.at_once(
                lambda e, what: probe_repo.record(
                    e, probe_repo.HEARTBEATS, what), *[(looks,)] * 3)
            self.assertEqual(['one', 'two'], sorted(
                name for changed in answers for name in changed))


class TestAmphoraeAtOnce(GaleraTestCase):

    NUMBER = 60

    def setUp(self):
        super().setUp()
        self.ids = set(self.add_amphorae(self.NUMBER))

    def test_add_missing(self):
        self.at_once(amphora_repo.add_missing, (), (), ())
        amphora_repo.add_missing(self.engine)
        self.assertEqual(self.NUMBER, len(self.rows(models.Amphora)))

    def test_claim_and_record(self):
        """No amphora has two owners, and each one gets what it needs."""
        amphora_repo.add_missing(self.engine)
        for number in range(1, 11):
            worked_on = self.at_once(self.work, *[
                (number, name) for name in 'abc'])
            ids = [i for ids in worked_on for i in ids]
            self.assertEqual(self.ids, set(ids))
            self.assertEqual(len(ids), len(self.ids), number)

    def work(self, engine, number, name):
        """Batches, one after the other, until there is nothing to do."""
        done = []
        for count in range(1000):
            owner = f'{name}-{number}-{count}'
            claimed = claim_repo.claim_due(engine, number, owner, 7, 600)
            if not claimed:
                if not claim_repo.count_due(engine, number):
                    return done
                continue
            outcomes = [outcome_repo.Outcome(a.id, upload_result.APPLIED,
                                             tuple(LIST)) for a in claimed]
            recorded = outcome_repo.record(engine, number, owner, outcomes)
            self.assertEqual({a.id for a in claimed}, recorded)
            done += recorded
        self.fail('no end')

    def test_claim_while_an_amphora_is_observed(self):
        """Which lists it may be using is left to the batch."""
        amphora_repo.add_missing(self.engine)
        amphora_id = min(self.ids)
        for number, address in enumerate(('192.0.2.7:5555', *LIST), 1):
            claim_repo.claim_due(self.engine, number, 'a', self.NUMBER, 60)
            outcome_repo.record(self.engine, number, 'a', [
                outcome_repo.Outcome(amphora_id, upload_result.APPLIED,
                                     (address,))])
            claim_repo.release(self.engine, 'a')
        unproven, = doubt_repo.get_unproven(self.engine,
                                            amphora_id=amphora_id)
        self.assertNotEqual((), unproven.doubt.previous)
        replace = previous_repo.replace

        def claim_first(*args):
            claim_repo.claim_due(self.engines[0], 3, 'b', self.NUMBER, 60)
            replace(*args)

        self.useFixture(fixtures.MonkeyPatch(
            'octavia_hmsync.sync.db.previous_list.replace',
            claim_first))
        doubt_repo.set_previous(self.engines[1], unproven, (('new:1',),))
        row, = [row for row in self.rows(models.Amphora)
                if row.amphora_id == amphora_id]
        self.assertEqual('b', row.claim_owner)
        found, = doubt_repo.get_unproven(self.engine, amphora_id=amphora_id)
        self.assertEqual(unproven.doubt.previous, found.doubt.previous)

    def test_hold_and_release(self):
        amphora_repo.add_missing(self.engine)
        for number in range(10):
            self.records.set_health(*self.ids, age=100)
            at = timeutils.utcnow().replace(microsecond=0)
            begun = self.at_once(hold_repo.hold, *[(list(self.ids), at)] * 3)
            self.assertEqual(sorted(self.ids),
                             sorted(i for ids in begun for i in ids))
            self.records.set_health(*self.ids, age=-10)
            ended = self.at_once(hold_repo.release_heard, (), (), ())
            self.assertEqual(sorted(self.ids),
                             sorted(i for ids in ended for i in ids))


class TestReads(GaleraTestCase):
    """What was written at one node is read at another, even one that lags."""

    LAG = 1.5

    def lag(self, node):
        """Have a node lag; returns when it does, and ends it after a while."""
        has_begun = threading.Event()

        def run():
            with self.cluster.lagging(node):
                has_begun.set()
                time.sleep(self.LAG)

        # So that nobody connects anew, which takes part of the time.
        for engine in self.engines:
            hm_repo.get_all(engine)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.assertTrue(waiting.happens(has_begun))

    def test_at_once(self):
        seen = []
        for number in range(1, 201):
            generation_repo.publish(self.engines[0], number, LIST, 'test',
                                    'hk')
            seen.append(generation_repo.get_newest(
                self.engines[number % 3]).number)
        self.assertEqual([*range(1, 201)], seen)

    def test_keepalive_at_another_node(self):
        """A proxy gives each connection another one."""
        self.lag(self.cluster.nodes[2])
        self.register(self.engines[0], 'hm1')
        self.assertTrue(hm_repo.touch(
            self.engines[2], 'hm1', 'a', '192.0.2.1', 5555, OFFLINE_AFTER))

    def test_ages(self):
        """Nobody looks older than he is."""
        self.register(self.engines[0], 'hm1')
        self.make_older(models.HealthManager, 'keepalive_at', 20)
        self.lag(self.cluster.nodes[2])
        hm_repo.touch(self.engines[0], 'hm1', 'a', '192.0.2.1', 5555,
                      OFFLINE_AFTER)
        found, = hm_repo.get_all(self.engines[2])
        self.assertAge(0, found.keepalive_age)

    def test_clock_offset(self):
        """Waiting is no difference of clocks."""
        self.lag(self.cluster.nodes[2])
        self.register(self.engines[0], 'hm1')
        self.assertLess(abs(clocks.get_offset(self.engines[2])), 0.1)

    def test_claim(self):
        self.add_amphorae(3)
        amphora_repo.add_missing(self.engine)
        self.lag(self.cluster.nodes[2])
        claimed = claim_repo.claim_due(self.engines[0], 1, 'batch1', 10, 600)
        self.assertEqual(3, len(claimed))
        self.assertEqual({a.id for a in claimed}, outcome_repo.record(
            self.engines[2], 1, 'batch1', [outcome_repo.Outcome(
                a.id, upload_result.APPLIED, tuple(LIST)) for a in claimed]))

    def test_claim_of_what_others_have(self):
        self.add_amphorae(3)
        amphora_repo.add_missing(self.engine)
        self.lag(self.cluster.nodes[2])
        self.assertEqual(3, len(claim_repo.claim_due(
            self.engines[0], 1, 'batch1', 10, 600)))
        self.assertEqual([], claim_repo.claim_due(
            self.engines[2], 1, 'batch2', 10, 600))

    def test_give_back(self):
        self.add_amphorae(3)
        amphora_repo.add_missing(self.engine)
        self.lag(self.cluster.nodes[2])
        claim_repo.claim_due(self.engines[0], 1, 'batch1', 10, 600)
        claim_repo.give_back(self.engines[2], 'batch1')
        self.assertEqual([None] * 3, [
            row.claim_owner for row in self.rows(models.Amphora)])

    def test_what_the_operator_has_set(self):
        for value in (0, 3):
            engine = self.make_engine(self.cluster.nodes[0],
                                      mysql_wsrep_sync_wait=value)
            self.assertEqual(value, self.sync_wait(engine))
        self.assertEqual(7, self.sync_wait(self.engines[0]))

    def sync_wait(self, engine):
        with engine.connect() as connection:
            return connection.exec_driver_sql(
                'SELECT @@wsrep_sync_wait').scalar()


class TestClocks(GaleraTestCase):

    AHEAD = 60

    def test_node_ahead(self):
        """Who writes at another node looks younger, and is told."""
        @sa.event.listens_for(self.engines[1], 'begin')
        def turn_clock(connection):
            connection.exec_driver_sql(
                f'SET SESSION timestamp = UNIX_TIMESTAMP(SYSDATE(6)) + '
                f'{self.AHEAD}')

        self.register(self.engines[0], 'hm1')
        began = time.monotonic()
        self.register(self.engines[1], 'hm2', '192.0.2.2')
        ahead = clocks.find_ahead(self.engines[0])
        self.assertEqual({'hm2'}, set(ahead))
        self.assertAge(-self.AHEAD, -ahead['hm2'], began)
        found = self.members()
        self.assertLess(found['hm2'].keepalive_age, 0)
        # Nobody is silent for that, and nobody goes.
        for engine in self.engines:
            self.assertEqual({'hm1', 'hm2'}, {
                m.host for m in hm_repo.get_all(engine)
                if member.is_listening(m, 10 * self.AHEAD)})
            self.assertEqual([], hm_repo.delete_expired(
                engine, 10 * self.AHEAD))
        # Since when it is ONLINE is yet to come, too: it registers anew.
        self.assertFalse(hm_repo.touch(
            self.engines[0], 'hm2', 'a', '192.0.2.2', 5555, OFFLINE_AFTER))
        self.register(self.engines[0], 'hm2', '192.0.2.2')
        self.assertEqual({}, clocks.find_ahead(self.engines[0]))

    def test_lag_is_none(self):
        """One that waits answers with the time of before."""
        self.register(self.engines[0], 'hm1')
        node = self.cluster.nodes[2]
        hm_repo.get_all(self.engines[2])
        with futures.ThreadPoolExecutor(1) as executor:
            with self.cluster.lagging(node):
                hm_repo.touch(self.engines[0], 'hm1', 'a', '192.0.2.1', 5555,
                              OFFLINE_AFTER)
                found = executor.submit(clocks.find_ahead, self.engines[2])
                time.sleep(4)
                hm_repo.touch(self.engines[0], 'hm1', 'a', '192.0.2.1', 5555,
                              OFFLINE_AFTER)
            self.assertEqual({}, found.result(60))


class _SpreadMixin:
    """Each connection, which is each transaction, is to another node."""

    database_options = {'connection_recycle_time': 0}

    @classmethod
    def get_database(cls):
        cluster = galera.shared_cluster()
        spreader = galera.Spreader(cluster.nodes)
        spreader.setUp()
        cls.addClassCleanup(spreader.cleanUp)
        shared = mariadb.shared_database(cluster.nodes[0])
        spread = copy.copy(shared)
        spread.connection = spreader.url(shared.server, shared.name)
        return spread


class TestSpreadClaims(_SpreadMixin, amphora.ClaimCases):

    def test_batch_that_uploads_nothing(self):
        """Nothing of it is claimed any more."""
        self.add_amphorae(5)
        amphora_repo.add_missing(self.engine)
        generation = generation_repo.Generation(
            1, LIST, '', trial.OPEN, 0, None, None)
        for number in range(20):
            with batch.Batch(
                    self.conf, self.engine, generation, f'batch{number}',
                    scout.Scout(self.conf, self.engine,
                                scout.HOUSEKEEPING)) as begun:
                self.assertTrue(begun.claim(5))
                # What would be uploaded is all of it.
                self.assertEqual(5, len(begun._claimed))
            self.assertEqual([None] * 5, [
                row.claim_owner for row in self.rows(models.Amphora)])


class TestSpreadRecords(_SpreadMixin, amphora.RecordCases):
    pass


class TestSpreadHealthManager(_SpreadMixin,
                              health_manager.HealthManagerCases):
    pass


class TestSpreadGeneration(_SpreadMixin, published.GenerationCases):
    pass


class TestSpreadImageReplacement(_SpreadMixin,
                                 image_rollout.ReplacementCases):
    pass


class TestUpgrade(GaleraTestCase):

    @classmethod
    def get_database(cls):
        cls.cluster = galera.shared_cluster()
        made = database.MariaDBDatabase(server=cls.cluster.nodes[0])
        made.setUp()
        cls.addClassCleanup(made.cleanUp)
        return made

    def empty(self):
        """None of our tables is there yet."""

    def test_at_each_node_at_once(self):
        """GET_LOCK is one node's own."""
        home = self.useFixture(fixtures.TempDir()).path
        children = [self.upgrade(home, node) for node in self.cluster.nodes]
        outputs = [child.communicate(timeout=240)[0] for child in children]
        self.assertEqual([0, 0, 0], [c.returncode for c in children],
                         outputs)
        for engine in self.engines:
            with engine.connect() as connection:
                schema.check(connection)

    def upgrade(self, home, node):
        path = f'{home}/{node.name}.conf'
        octavia_conf.write(path, {
            'database': {'connection': node.url(self.database.name)}})
        child = subprocess.Popen(
            [sys.executable, '-m', 'octavia_hmsync.cmd.hmsync',
             '--config-file', path, 'db', 'upgrade'],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=process.environment(home))
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child


class TestNodes(GaleraTestCase):
    """Nodes that end, hang or are alone."""

    @classmethod
    def get_database(cls):
        directory = fixtures.TempDir()
        directory.setUp()
        cls.addClassCleanup(directory.cleanUp)
        cls.cluster = galera.GaleraCluster(directory.path)
        cls.cluster.setUp()
        cls.addClassCleanup(cls.cluster.cleanUp)
        return mariadb.shared_database(cls.cluster.nodes[0])

    def assert_unusable(self, engine, *errors):
        """It says so, in one line; and has no answer."""
        for function in (hm_repo.get_all, generation_repo.get_newest,
                         amphora_repo.add_missing,
                         lambda e: self.register(e, 'hm2')):
            error = self.assertRaises(api.ERRORS, function, engine)
            self.assertTrue(api.is_database_error(error), repr(error))
            text = api.describe(error)
            self.assertEqual(1, len(text.splitlines()))
            self.assertTrue(any(e in text for e in errors), text)

    def test_killed_paused_alone(self):
        one, two, three = self.cluster.nodes
        self.register(self.engine, 'hm1')
        self.cluster.wait_until_even()

        two.kill_tree()
        for engine in (self.engines[0], self.engines[2]):
            self.assertTrue(hm_repo.touch(
                engine, 'hm1', 'a', '192.0.2.1', 5555, 600))
        self.assert_unusable(self.engines[1], '2013', '2003')
        two.rejoin()
        self.cluster.wait_until_whole()
        # By the same engine, though its connections are gone.
        self.assertTrue(hm_repo.touch(
            self.engines[1], 'hm1', 'a', '192.0.2.1', 5555, 600))

        # What remains is no majority: it may not even be read.
        hm_repo.get_all(self.engines[2])
        one.kill_tree()
        two.kill_tree()
        waiting.wait_for(lambda: self.has_no_answer(self.engines[2]),
                         'sign that the node is alone')
        for engine in (self.engines[2], self.make_engine(three)):
            self.assert_unusable(engine, '1047', '1205')

    def has_no_answer(self, engine):
        try:
            found = hm_repo.get_all(engine)
        except Exception as e:
            self.assertTrue(api.is_database_error(e), repr(e))
            return True
        # As long as it has one, it is the right one.
        self.assertEqual(['hm1'], [m.host for m in found])
        return False

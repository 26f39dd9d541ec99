# SPDX-License-Identifier: Apache-2.0

"""Who takes up which replacement, and what becomes of it."""

import threading
from unittest import mock

import fixtures
from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image import replacer
from octavia_hmsync.image.rollout import keeper as rollout_keeper
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import rules
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.worker import scout
from tests.cloud import waiting
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls
from tests.unit.db import sqlite

DONE = attempt.Outcome('DONE')
WORK = work_.Work
TIMEOUT = 30


class TestReplacer(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        groups.register(self.conf)
        self.conf.set_override('replacements_at_once', 2,
                               group=image_conf.GROUP)
        # What each attempt comes to, by load balancer; held while .gate is
        # shut.
        self.outcomes = {}
        self.gate = threading.Event()
        self.gate.set()
        self.begun = []
        self.decision = rules.Decision(rollout_repo.RUNNING)
        for target, name, new in (
                (replacer, 'inventory', mock.Mock()),
                (replacer.work_, 'Work', self._make_work),
                (replacer.process, 'Process', self._make_attempt),
                (replacer.agent_client, 'does_anybody_answer',
                 self._probe),
                (rollout_keeper.target, 'Targets', mock.Mock()),
                (rollout_keeper.reading, 'read_situation', mock.Mock()),
                (rollout_keeper.rules, 'decide',
                 lambda situation: self.decision)):
            self.useFixture(fixtures.MockPatchObject(target, name, new))
        self.is_reachable = True
        self.wake = mock.Mock()
        self.replacer = self.make()

    def make(self):
        made = replacer.Replacer(self.conf, self.engine, self.wake,
                                 {'ACTIVE_ACTIVE': self._make_attempt})
        self.addCleanup(made.stop, TIMEOUT)
        self.addCleanup(self.gate.set)
        return made

    def _probe(self, conf, lb_network_ips):
        return self.is_reachable

    def _make_work(self, conf, engine, replacement, held):
        return mock.Mock(spec=WORK, replacement=replacement,
                         phase=replacement.phase, held=held)

    def _make_attempt(self, work, inventory):
        def run():
            name = work.replacement.load_balancer_id
            self.begun.append(name)
            if not self.gate.wait(TIMEOUT):
                raise RuntimeError('The gate stayed shut.')
            outcome = self.outcomes.get(name, DONE)
            if callable(outcome):
                outcome = outcome(work)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return mock.Mock(run=run)

    def ask_for(self, *names):
        for name in names:
            replace_repo.add(self.engine, replace_repo.New(
                f'of {name}', name, 'replace', 'image'))

    def get(self, name):
        return replace_repo.get(self.engine, f'of {name}')

    def wait_until(self, condition):
        waiting.wait_for(condition, 'what a thread does', TIMEOUT, 0.01)

    def run_until(self, condition):
        def done():
            self.replacer.run_once()
            return condition()
        self.wait_until(done)

    def idle(self):
        return not self.replacer._crew.keys()

    def test_topology_with_a_way_of_its_own(self):
        """Whatever the mode: neither Process nor Stock is asked."""
        for mode in ('replace', 'failover'):
            replace_repo.add(self.engine, replace_repo.New(
                f'of {mode}', mode, mode, 'image', 'ACTIVE_ACTIVE'))
        with mock.patch.object(replacer.process, 'Process', self.fail), \
                mock.patch.object(replacer.stock, 'Stock', self.fail):
            self.run_until(lambda: all(
                self.get(mode).state == 'DONE'
                for mode in ('replace', 'failover')))

    def test_mode(self):
        """Each mode has its own way."""
        self.useFixture(fixtures.MockPatchObject(
            replacer.stock, 'Stock', lambda work, inventory: mock.Mock(
                run=lambda: attempt.Outcome('FAILED', 'by failover'))))
        replace_repo.add(self.engine, replace_repo.New(
            'of a', 'a', 'failover', 'image'))
        self.ask_for('b')
        self.run_until(lambda: self.get('b').state == 'DONE' and
                       self.get('a').state == 'FAILED')
        self.assertEqual('by failover', self.get('a').reason)
        self.assertEqual(['b'], self.begun)

    def test_carried_out(self):
        """As many at once as may, and all in the end, the oldest first."""
        self.gate.clear()
        self.ask_for('a', 'b', 'c')
        self.replacer.run_once()
        self.replacer.run_once()
        self.wait_until(lambda: len(self.begun) == 2)
        self.assertEqual(['RUNNING', 'RUNNING', 'WAITING'],
                         [self.get(name).state for name in 'abc'])
        self.gate.set()
        self.run_until(lambda: self.get('c').state == 'DONE')
        self.assertEqual({'a', 'b', 'c'}, set(self.begun))
        self.assertTrue(self.wake.called)

    def test_thread(self):
        """Logs tell by its name what it works for."""
        names = []
        self.outcomes = {'a': lambda _work: names.append(
            threading.current_thread().name) or DONE}
        self.ask_for('a')
        self.run_until(lambda: self.get('a').state == 'DONE')
        self.assertEqual(['hmsync-replace-of a'], names)

    def test_outcomes(self):
        self.outcomes = {'a': attempt.fail('No heartbeat.'),
                         'b': attempt.skip('locked', 60)}
        self.ask_for('a', 'b')
        self.run_until(lambda: 'RUNNING' not in {
            self.get(name).state for name in 'ab'})
        self.assertEqual(('FAILED', 'No heartbeat.'),
                         (self.get('a').state, self.get('a').reason))
        self.assertEqual('SKIPPED', self.get('b').state)
        self.assertIsNotNone(self.get('b').not_before)

    def test_lost(self):
        """It is somebody else's to say how it ended."""
        self.outcomes = {'a': exceptions.Lost()}
        self.ask_for('a')
        self.replacer.run_once()
        self.wait_until(self.idle)
        self.assertEqual('RUNNING', self.get('a').state)
        self.assertIsNotNone(self.get('a').claim_owner)

    def test_database_down(self):
        """Whoever takes it up when the claim lapses goes on."""
        self.outcomes = {'a': db_exc.DBConnectionError()}
        self.ask_for('a')
        self.replacer.run_once()
        self.wait_until(self.idle)
        self.assertEqual('RUNNING', self.get('a').state)

    def test_stopped(self):
        """Another one may go on at once."""
        self.gate.clear()
        self.outcomes = {'a': lambda work: work.held.check() or DONE}
        self.ask_for('a')
        self.replacer.run_once()
        threading.Timer(0.2, self.gate.set).start()
        self.replacer.stop(TIMEOUT)
        self.assertEqual(('RUNNING', None),
                         (self.get('a').state, self.get('a').claim_owner))
        self.ask_for('b')
        self.replacer.run_once()
        self.assertEqual('WAITING', self.get('b').state)
        self.replacer = self.make()
        self.run_until(lambda: all(
            self.get(name).state == 'DONE' for name in 'ab'))

    def test_stopped_while_it_waits(self):
        """What only waits is left to others, what works keeps its claim."""
        self.gate.clear()
        self.ask_for('a', 'b')
        self.replacer.run_once()
        self.wait_until(lambda: len(self.begun) == 2)
        idle, busy = self.replacer._works.values()
        idle.is_idle, busy.is_idle = True, False
        self.replacer.stop(0)
        self.assertEqual([True, False], [
            self.get(work.replacement.load_balancer_id).claim_owner is None
            for work in (idle, busy)])

    def test_cannot_be_worked_on(self):
        """With nothing touched it has failed; else it is left to others."""
        error = exceptions.InvalidConfiguration('No server_ca.')
        self.outcomes = {'a': error, 'b': KeyError('mtu')}
        self.ask_for('a', 'b')
        self.run_until(lambda: all(
            self.get(name).state == 'FAILED' for name in 'ab'))
        self.assertEqual(('FAILED', 'No server_ca.'),
                         (self.get('a').state, self.get('a').reason))
        self.assertEqual('KeyError, see the log of the housekeeper '
                         'controller1.', self.get('b').reason)

        self.outcomes = {'d': exceptions.CloudUnavailable('No answer.')}
        self.ask_for('d')
        self.run_until(lambda: self.get('d').state == 'SKIPPED')
        self.assertEqual('No answer.', self.get('d').reason)
        self.assertIsNotNone(self.get('d').not_before)

        def in_the_middle(work):
            work.phase = 'PROVE'
            return error
        self.outcomes = {'c': in_the_middle}
        self.ask_for('c')
        self.replacer.run_once()
        self.wait_until(self.idle)
        found = self.get('c')
        self.assertEqual(('RUNNING', 'PROVE', 'No server_ca.'),
                         (found.state, found.phase, found.reason))
        # It is taken up when that has lapsed, and not again and again.
        self.assertIsNotNone(found.claim_owner)

    def test_without_a_way(self):
        """Where no amphora can be reached none is tried, nor taken up."""
        amphora, = self.add_amphorae(1)
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.Amphora.__table__).values(
                amphora_id=amphora, applied_at=types.utcnow(),
                result='APPLIED', generation=1))
        self.is_reachable = False
        self.ask_for('a')
        self.start('b')
        self.replacer.run_once()
        self.assertEqual(('WAITING', {}),
                         (self.get('a').state, self.of_rollout()))
        self.is_reachable = True
        self.replacer = self.make()
        self.run_until(lambda: self.get('a').state == 'DONE')

    # Rollouts

    def start(self, *names, is_canary=False):
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)
        self.decision = rules.Decision(rollout_repo.RUNNING, '', tuple(
            (limits.Candidate(name, target_image_id='image'), is_canary)
            for name in names))

    def of_rollout(self):
        return {r.load_balancer_id: r for r in replace_repo.get_of_rollout(
            self.engine, 'rollout')}

    def test_rollout(self):
        """What is chosen begins, as far as there is room here."""
        self.gate.clear()
        self.start('a', 'b', 'c', is_canary=True)
        self.replacer.run_once()
        found = self.of_rollout()
        self.assertEqual({'a', 'b'}, set(found))
        self.assertEqual({('RUNNING', True, 1)}, {
            (r.state, r.canary, r.attempts) for r in found.values()})

    def test_skipped_again_and_again(self):
        """Each time it waits twice as long, until it is left alone."""
        self.outcomes = {'a': attempt.skip('It is silent.')}
        waits, seen = [], set()
        self.start('a')
        for _ in range(limits.TRIES):
            self.replacer.run_once()
            self.wait_until(self.idle)
            last, = (r for r in replace_repo.get_of_rollout(
                self.engine, 'rollout') if r.id not in seen)
            seen.add(last.id)
            waits.append(last.not_before and round(
                (last.not_before - last.finished_at).total_seconds()))
        self.assertEqual([60, 120, 240, 480, 960, 1920, 3600, None], waits)
        self.assertEqual('It is silent. It was tried 8 times: this rollout '
                         'leaves it alone.', last.reason)

    def test_asked_for_come_first(self):
        self.gate.clear()
        self.start('a', 'b')
        self.ask_for('x')
        self.replacer.run_once()
        self.assertEqual({'a'}, set(self.of_rollout()))
        self.assertEqual('RUNNING', self.get('x').state)

    def test_paused(self):
        self.start('a')
        rollout_repo.change_state(self.engine, 'rollout', ('RUNNING',),
                                  'PAUSED')
        self.replacer.run_once()
        self.assertEqual({}, self.of_rollout())

    def test_changed_meanwhile(self):
        """Nothing begins by a decision that is no longer right."""
        self.start('a')

        def read(*args):
            with self.engine.begin() as connection:
                rollout_repo.touch(connection)
        rollout_keeper.reading.read_situation.side_effect = read
        self.replacer.run_once()
        self.assertEqual({}, self.of_rollout())
        self.assertEqual([], self.begun)

    def test_end(self):
        for state in ('DONE', 'HALTED'):
            self.start()
            self.decision = rules.Decision(state, 'because')
            self.replacer.run_once()
            ended = rollout_repo.get(self.engine, 'rollout')
            self.assertEqual((state, 'because'), (ended.state, ended.reason))
            self.assertIsNone(rollout_repo.get_active(self.engine))
            self.execute("DELETE FROM hmsync_image_rollout")

    def execute(self, statement):
        with self.engine.begin() as connection:
            connection.exec_driver_sql(statement)


class TestWay(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.reachable = {'192.0.2.1': None}
        self.uploaders = []
        self.answers = True
        self.asked = []
        self.now = 0
        for name, function in (
                ('get_reachable', lambda engine, name: self.reachable),
                ('get_all', lambda engine: self.uploaders)):
            self.useFixture(fixtures.MockPatchObject(
                replacer.uploader_repo, name, function))
        self.subject = replacer.Route(self.conf, self.engine, self.probe,
                                      lambda: self.now)

    def probe(self, ips):
        self.asked.append(ips)
        return self.answers

    def test_asks_once(self):
        for _ in range(3):
            self.assertTrue(self.subject.is_there())
        self.assertEqual([['192.0.2.1']], self.asked)
        self.assertEqual('', self.log.output)

    def test_doubt(self):
        """It asks again, not too often, and says so when it changes."""
        self.subject.is_there()
        self.answers = False
        self.subject.doubt()
        # What was found a moment ago holds.
        self.assertTrue(self.subject.is_there())
        self.now += scout.PROBE_INTERVAL
        for _ in range(3):
            self.assertFalse(self.subject.is_there())
        self.assertEqual(1, self.log.output.count('cannot reach the agents'))
        self.answers = True
        self.assertFalse(self.subject.is_there())
        self.now += scout.PROBE_INTERVAL
        self.assertTrue(self.subject.is_there())
        self.assertIn('can reach the agents of amphorae again',
                      self.log.output)
        self.assertEqual(3, len(self.asked))

    def test_nothing_to_ask(self):
        """Nobody was ever reached: the first one may be."""
        self.reachable = {}
        self.answers = False
        self.assertTrue(self.subject.is_there())

    def uploader(self, service, host, overtaken=0):
        return reach.Uploader(scout.get_name(service, host), 1, None, None,
                              overtaken, overtaken)

    def test_what_uploads_have_shown(self):
        """Others do it, if there are any that replace amphorae."""
        host = self.conf.host
        own = self.uploader(scout.HOUSEKEEPING, host, 9)
        for other, is_there in (
                (None, True),
                (self.uploader(scout.WORKER, 'other'), True),
                (self.uploader(scout.HOUSEKEEPING, 'other', 9), True),
                (self.uploader(scout.HOUSEKEEPING, 'other'), False)):
            self.uploaders = [each for each in (own, other) if each]
            self.assertEqual(is_there, self.subject.is_there(), other)
        self.uploaders = [self.uploader(scout.HOUSEKEEPING, host), other]
        self.assertTrue(self.subject.is_there())

# SPDX-License-Identifier: Apache-2.0

import contextlib

import fixtures
from oslo_utils import uuidutils
from taskflow import engines
from taskflow.persistence import backends
from taskflow.persistence import models
from taskflow import states

from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.sync.worker import jobboard
from tests.unit import base


# What stands in a logbook since the first release with jobs.
FACTORY = {'name': 'octavia_hmsync.sync.worker.jobboard.get_run_batches_flow',
           'args': [], 'kwargs': {}}
TASK = 'octavia_hmsync.sync.worker.jobboard.RunBatches'


class Job:

    def __init__(self, name, book, details, priority):
        self.name = name
        self.book = book
        self.details = details
        self.priority = priority
        self.state = states.UNCLAIMED


class Driver:
    """A jobboard driver of which the test sees everything."""

    def __init__(self):
        self.jobs = []
        self.error = None
        self.persistence = backends.fetch({'connection': 'memory'})
        self.persistence_driver = self
        self.open = 0

    @contextlib.contextmanager
    def get_persistence(self):
        yield self.persistence

    @contextlib.contextmanager
    def job_board(self, persistence):
        if self.error:
            raise self.error
        self.open += 1
        yield self
        self.open -= 1

    def shutdown(self):
        pass

    def iterjobs(self, only_unclaimed=False):
        if self.error:
            raise self.error
        return [job for job in self.jobs
                if not only_unclaimed or job.state == states.UNCLAIMED]

    def post(self, name, book, details, priority):
        self.jobs.append(Job(name, book, details, priority))

    def books(self):
        return list(self.persistence.get_connection().get_logbooks())


class Runner:
    """Notes which jobs it was to run."""

    def __init__(self):
        self.ran = []

    def run(self, job_id):
        self.ran.append(job_id)
        return {}


class TestJobboard(base.TestCase):

    def setUp(self):
        super().setUp()
        self.driver = Driver()
        self.patch(compat, 'load_jobboard_driver', lambda: self.driver)
        self.now = 0
        self.conf = self.make_conf()
        self.subject = jobboard.Jobboard(self.conf, lambda: self.now)

    def test_a_conductor_can_run_it(self):
        self.assertTrue(self.subject.offer())
        job, = self.driver.jobs
        runner = Runner()
        self.patch(jobboard, '_get_runner', lambda: runner)
        flow, = job.book
        engines.load_from_detail(flow, store=job.details['store'],
                                 backend=self.driver.persistence).run()
        self.assertEqual([flow.uuid], runner.ran)
        self.assertEqual('LOW', job.priority.value)

    def test_what_workers_of_another_release_need(self):
        """They have to find the factory, and what it requires."""
        self.subject.offer()
        job, = self.driver.jobs
        flow, = job.book
        self.assertEqual(FACTORY, flow.meta['factory'])
        self.assertEqual({'store': {'job_id': flow.uuid}}, job.details)

    def test_job_of_the_first_release(self):
        """One that nobody has begun with, and one whose worker was killed."""
        for state in (None, states.RUNNING):
            job_id = uuidutils.generate_uuid()
            name = jobboard.PREFIX + job_id
            book = models.LogBook(name)
            flow = models.FlowDetail(name, job_id)
            flow.meta = {'factory': FACTORY}
            if state:
                flow.state = state
                task = models.TaskDetail(TASK, uuidutils.generate_uuid())
                task.state = state
                task.version = '1.0'
                flow.add(task)
            book.add(flow)
            connection = self.driver.persistence.get_connection()
            connection.save_logbook(book)
            flow, = connection.get_logbook(book.uuid)
            runner = Runner()
            with fixtures.MonkeyPatch(
                    'octavia_hmsync.sync.worker.jobboard._get_runner',
                    lambda runner=runner: runner):
                engine = engines.load_from_detail(
                    flow, store={'job_id': job_id},
                    backend=self.driver.persistence)
                engine.run()
            self.assertEqual([job_id], runner.ran, state)
            self.assertEqual({}, engine.storage.fetch('results'))
            # Not a second task beside the one that was begun.
            self.assertEqual({TASK}, {
                detail.name for detail in flow
                if isinstance(detail, models.TaskDetail) and
                'Flow' not in detail.name})

    def test_one_at_a_time(self):
        self.assertTrue(self.subject.offer())
        self.assertFalse(self.subject.offer())
        self.driver.jobs[0].state = states.CLAIMED
        self.assertTrue(self.subject.offer())
        self.assertFalse(self.subject.offer())

    def test_foreign_jobs_do_not_matter(self):
        for state in (states.UNCLAIMED, states.CLAIMED):
            self.driver.post('foreign', None, {}, None)
            self.driver.jobs[-1].state = state
        self.assertTrue(self.subject.offer())

    def test_connections(self):
        self.subject.offer()
        self.subject.offer()
        self.assertEqual(1, self.driver.open)
        self.subject.close()
        self.subject.close()
        self.assertEqual(0, self.driver.open)

    def test_down(self):
        self.driver.error = ConnectionRefusedError('redis://user:secret@host')
        for call in (self.subject.check, self.subject.offer):
            error = self.assertRaises(exceptions.JobboardUnavailable, call)
            self.assertNotIn('secret', str(error))
        self.driver.error = None
        self.subject.offer()
        self.driver.error = ConnectionResetError()
        self.assertRaises(exceptions.JobboardUnavailable, self.subject.offer)
        self.assertEqual(0, self.driver.open)

    def test_logbooks_of_lost_jobs(self):
        self.subject.offer()
        self.driver.jobs.clear()
        self.subject.offer()
        kept = self.driver.jobs[0].book.uuid
        self.assertEqual(2, len(self.driver.books()))
        for looks, books in ((1, 2), (2, 1), (3, 1)):
            self.now += 600
            self.subject.offer()
            self.assertEqual(books, len(self.driver.books()), looks)
        self.assertEqual([kept], [b.uuid for b in self.driver.books()])

    def test_logbooks_that_are_to_be_kept(self):
        self.conf.set_override('jobboard_save_logbook', True, 'task_flow')
        self.subject.offer()
        self.driver.jobs.clear()
        for _ in range(3):
            self.now += 600
            self.subject.offer()
        self.assertEqual(2, len(self.driver.books()))

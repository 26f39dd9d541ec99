# SPDX-License-Identifier: Apache-2.0

"""A sync that octavia-workers do, by way of Octavia's jobboard."""

import os
import re
import uuid

import sqlalchemy as sa
from sqlalchemy import pool

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.sync.worker import jobboard
from tests.cloud import ailing
from tests.cloud import database
from tests.cloud import octavia_conf
from tests.cloud import redis
from tests.functional import test_hostile_agents as hostile

# Seconds after which the job of a worker that was killed is another's.
EXPIRATION = 6
# Octavia's conductor logs what its jobs do at DEBUG.
JOB_ID = re.compile(r"Flow 'octavia-hmsync-(\S+)' .* into state 'RUNNING'")


class JobboardCase(hostile.HostileAgentCase):
    """A cloud with a jobboard, and amphorae that know one health manager."""

    make_database = database.MariaDBDatabase

    def make_jobboard_cloud(self, options=None, jobboard_options=None):
        cloud = self.make_cloud(boot_numbers=(1,), options=options)
        self.redis = self.useFixture(redis.RedisServer(cloud.directory))
        self.redis.wait_until_ready()
        self.jobboard_options = {
            'DEFAULT': {'debug': True},
            # TaskFlow takes no empty one.
            'database': {'pool_timeout': 10},
            'task_flow': {
                'jobboard_enabled': True,
                'jobboard_backend_hosts': '127.0.0.1',
                'jobboard_backend_port': self.redis.port,
                'jobboard_expiration_time': EXPIRATION,
                'persistence_connection': self._make_persistence(),
                **(jobboard_options or {})}}
        result = cloud.command('octavia-db-manage', 'upgrade_persistence',
                               options=self.jobboard_options)
        self.assertEqual(0, result.returncode,
                         result.stderr + result.stdout)
        return cloud

    def _make_persistence(self):
        # Octavia and TaskFlow call their version tables the same.
        server, name = self.cloud.database.server, f'p_{uuid.uuid4().hex[:9]}'
        server.execute(f'CREATE DATABASE {name}')
        self.addCleanup(server.execute, f'DROP DATABASE {name}')
        self.persistence = sa.create_engine(server.url(name),
                                            poolclass=pool.NullPool)
        return server.url(name)

    def add_workers(self, *hosts, options=None):
        """Start workers, without waiting for them."""
        self.workers = [self.cloud.add_worker(
            host, options=octavia_conf.merge(self.jobboard_options, options))
            for host in hosts]

    def start(self):
        """Wait for the workers, and start what gives them work."""
        cloud = self.cloud
        cloud.add_health_manager(cloud.address(1))
        # A worker that is still starting would miss the sync.
        cloud.wait_until_ready()
        self.housekeeping = cloud.add_housekeeping(
            options=self.jobboard_options)
        self.wait_until_published([f'{cloud.address(1)}:5555'])

    def are_applied(self):
        """Whether all amphorae are at the newest list."""
        return not self.due() and all(
            row.result == upload_result.APPLIED
            for row in self.results().values())

    def jobs(self):
        """Names of our jobs on the board."""
        with self.redis.jobboard() as board:
            return {job.name for job in board.iterjobs()
                    if job.name.startswith(jobboard.PREFIX)}

    def logbooks(self):
        """What TaskFlow keeps of the jobs, as text."""
        text = []
        with self.persistence.connect() as connection:
            for table in ('logbooks', 'flowdetails', 'atomdetails'):
                text += map(str, connection.execute(
                    sa.text(f'SELECT * FROM {table}')).all())  # nosec B608
        return '\n'.join(text)

    def wait_until_tidy(self):
        """Wait until nothing of a job is left anywhere."""
        self.wait_for(lambda: not self.jobs() and not self.logbooks(),
                      lambda: f'end of {self.jobs()}, {self.logbooks()}')

    def claimed_by(self, worker):
        """Ids of the amphorae that the newest job of a worker has claimed."""
        begun = JOB_ID.findall(worker.log())
        prefix = begun[-1].replace('-', '')[:20] if begun else 'none'
        return {i for i, row in self.results().items()
                if (row.claim_owner or '').startswith(prefix)}

    def configured_by(self, process):
        """How many amphorae a process has configured since its start."""
        return sum(map(int, re.findall(
            r'Configured amphorae: (\d+) APPLIED', process.log())))

    def begin(self, amphorae, delay, *workers):
        self.make_jobboard_cloud({'hmsync': {'batch_size': 4}})
        self.amphorae = self.add(amphorae, ailing.SLOW, delay=delay)
        self._post_foreign_job()
        self.add_workers(*workers)
        self.start()

    def _post_foreign_job(self):
        """A job of somebody else's that never ends."""
        with self.redis.jobboard() as board:
            board.claim(board.post('foreign'), 'somebody')


class TestWorkers(JobboardCase):
    """Two workers with the plugin."""

    def test_workers(self):
        self.begin(20, 0.8, 'worker1', 'worker2')
        text = set()
        rounds = self._sync_by_workers(text)
        self.assertEqual({rounds}, {a.uploads for a in self.amphorae})
        self.wait_until_tidy()

        # Nothing secret went through TaskFlow.
        self.assertIn('get_run_batches_flow', ''.join(text))
        for shown in (*text, *(w.log() for w in self.workers)):
            self.assertNotIn(self.cloud.heartbeat_key, shown)

        # One is killed hard in the middle. The other goes on with its job,
        # long before the claims in the database lapse.
        doomed, survivor = self.workers

        def is_at_work():
            nonlocal rounds
            if self.are_applied():
                self.make_due()
                rounds += 1
            return self.claimed_by(doomed)
        self.wait_for(is_at_work, 'job')
        doomed.kill_tree()
        left = self.claimed_by(doomed)
        self.assertTrue(left)
        self.wait_until_applied(self.ids(self.amphorae))
        self.assertIn('Going on with job', survivor.log())
        # What it had under way is done again, and nothing else is.
        for amphora in self.amphorae:
            self.assertLessEqual(amphora.uploads,
                                 rounds + (amphora.amphora_id in left))
        self.assertEqual(0, self.due())
        for amphora in self.amphorae:
            self.assertEqual([], amphora.overlaps())
        self.wait_until_tidy()
        with self.redis.jobboard() as board:
            self.assertEqual(['foreign'], [j.name for j in board.iterjobs()])

    def _sync_by_workers(self, text):
        """Sync until both took part, and housekeeping left it to them.

        A worker that takes long to start is not there the first time.

        :param text: a set, to which is added what TaskFlow keeps meanwhile.
        :returns: how many syncs it took.
        """
        def are_done():
            text.add(self.logbooks())
            return self.are_applied()

        for rounds in range(1, 5):
            by_housekeeping = self.configured_by(self.housekeeping)
            if rounds > 1:
                self.make_due()
            self.wait_for(are_done, 'upload to all')
            if (min(map(self.configured_by, self.workers)) >= 4 and
                    self.configured_by(self.housekeeping) ==
                    by_housekeeping):
                return rounds
        self.fail('the workers do not share the work: '
                  f'{[self.configured_by(w) for w in self.workers]}')


class TestWorkersWithoutPlugin(JobboardCase):

    def test_housekeeping_does_it(self):
        """They take the jobs, and do nothing with them."""
        cloud = self.make_jobboard_cloud({'hmsync': {'batch_size': 4}})
        amphorae = self.add(8, ailing.HEALTHY)
        # Switched off.
        self.add_workers('off', options={'DEFAULT': {'config_source': None}})
        self.start()
        self.wait_until_applied(self.ids(amphorae))
        # It tells of a batch after the results are recorded.
        self.wait_for(lambda: self.configured_by(self.housekeeping) == 8,
                      'the last batch to be told of')
        self.assertIn('No octavia-worker configures', self.housekeeping.log())
        off = self.workers[0]
        self.assertEqual(1, off.log().count('octavia-hmsync is off'))

        # Not even installed. A worker that is killed between a job and its
        # logbook leaves the logbook, for minutes.
        self.wait_until_tidy()
        off.kill_tree()
        path = os.path.join(cloud.directory, 'broken', 'octavia_hmsync')
        os.makedirs(path)
        with open(os.path.join(path, '__init__.py'), 'w') as module:
            module.write('raise ImportError("not installed")')
        off.env['PYTHONPATH'] = os.pathsep.join(
            [os.path.dirname(path), off.env.get('PYTHONPATH', '')])
        off.start()
        off.wait_until_ready()
        self.make_due()
        self.wait_until_applied(self.ids(amphorae))
        self.wait_for(lambda: self.configured_by(self.housekeeping) == 16,
                      'the last batch to be told of')
        self.wait_for(lambda: 'Could not import factory' in off.log(),
                      'job that is thrown away')
        # Housekeeping says so, and removes what is left of it.
        self.make_due()
        self.wait_for(lambda: 'Install the package for every octavia-worker'
                      in self.housekeeping.log(), 'warning')
        self.wait_until_applied(self.ids(amphorae))
        self.wait_until_tidy()

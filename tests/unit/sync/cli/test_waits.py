# SPDX-License-Identifier: Apache-2.0

"""What commands on the list wait for with --wait."""

from octavia_hmsync.cli import progress
from octavia_hmsync.sync.cli import watch
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import pause as pause_repo
from tests.unit.sync.cli import test_sync

FIRST, SECOND = '192.0.2.101:5555', '192.0.2.102:5555'


class TestWaits(test_sync.WatchTestCase):

    def setUp(self):
        super().setUp()
        self.patch(progress, 'INTERVAL', 0.01)
        for number in (1, 2):
            hm_repo.register(self.engine, f'hm{number}',
                             f'192.0.2.10{number}', 5555, 'first', 20)
        self.publish_list(1, FIRST)
        self.record(1, *3 * ['APPLIED'])
        self.look, self.looks = watch.look, 0

    def publish_list(self, number, *addresses):
        generation_repo.publish(
            self.engine, number, {a: n for n, a in enumerate(addresses)},
            'because', 'controller1')

    def meanwhile(self, do):
        """Have something done after the first look of a command."""
        self.looks = 0

        def look_and_do(*args):
            found = self.look(*args)
            self.looks += 1
            if self.looks == 1:
                do()
            return found

        self.patch(watch, 'look', look_and_do)

    def assertWaits(self, *argv, looks=2):
        """Not after the first look, but after what is done then."""
        code, out, err = self.run_command(*argv, '--wait', '--timeout', '30')
        self.assertEqual((0, ''), (code, err), out)
        self.assertGreaterEqual(self.looks, looks)
        return out

    def assertWaitsInVain(self, *argv):
        code, out, err = self.run_command(*argv, '--wait', '--timeout', '0.1')
        self.assertEqual((1, 1), (code, err.count('\n')), err)
        self.assertIn('Not done after 0.1 s. It goes on: see "octavia-hmsync '
                      'sync watch".', err)
        return out

    def upload(self):
        newest = generation_repo.get_newest(self.engine).number
        self.record(newest, *3 * ['APPLIED'])

    def test_run(self):
        self.assertIn('generation 1 OPEN: 0 of 3 amphorae',
                      self.assertWaitsInVain('sync', 'run', '--all'))
        self.meanwhile(self.upload)
        self.assertIn('generation 1 OPEN: 3 of 3 amphorae',
                      self.assertWaits('sync', 'run', '--all'))

    def test_run_for_one(self):
        """What others lack is not waited for."""
        self.publish_list(2, SECOND)
        self.assertWaitsInVain('sync', 'run', '--amphora', self.ids[0])
        self.meanwhile(lambda: self.record(2, 'APPLIED', 'REJECTED',
                                           'REJECTED'))
        # It reads rows itself, after the look.
        self.assertWaits('sync', 'run', '--amphora', self.ids[0], looks=1)

    def test_pause(self):
        self.publish_list(2, SECOND)
        claim_repo.claim_due(self.engine, 2, 'batch', 20, 60)
        self.assertWaitsInVain('sync', 'pause')
        self.meanwhile(lambda: claim_repo.release_all(self.engine, 'batch'))
        self.assertWaits('sync', 'pause')
        self.assertIsNotNone(pause_repo.get(self.engine))

    def test_resume(self):
        self.publish_list(2, SECOND)
        self.run_ok('sync', 'pause')
        self.assertWaitsInVain('sync', 'resume')
        self.meanwhile(self.upload)
        self.assertWaits('sync', 'resume')

    def test_roll_back_and_retry(self):
        self.publish_list(2, FIRST, SECOND)
        self.upload()
        self.meanwhile(self.upload)
        self.assertWaits('generation', 'rollback')

        self.assertWaitsInVain('sync', 'retry')
        generation_repo.publish(self.engine, 4, {FIRST: 0}, '', 'here')
        generation_repo.publish(self.engine, 5, {FIRST: 0, SECOND: 1}, '',
                                'here')
        self.run_ok('generation', 'rollback')

        def give_another_chance():
            self.publish_list(7, FIRST, SECOND)
            self.upload()

        self.meanwhile(give_another_chance)
        self.assertWaits('sync', 'retry')
        # Nothing is left out any more.
        self.run_ok('sync', 'retry', '--wait')

    def test_health_managers(self):
        argv = ('health', 'manager', 'resume', 'hm2')
        self.assertWaitsInVain(*argv)

        def publish(*addresses):
            self.publish_list(
                generation_repo.get_newest(self.engine).number + 1,
                *addresses)
            self.upload()

        self.meanwhile(lambda: publish(FIRST, SECOND))
        self.assertWaits(*argv)

        argv = ('health', 'manager', 'delete', 'hm2')
        self.make_older(test_sync.models.HealthManager, 'keepalive_at', 21,
                        host='hm2')
        self.assertWaitsInVain(*argv)
        hm_repo.register(self.engine, 'hm2', '192.0.2.102', 5555, 'x', 20)
        self.make_older(test_sync.models.HealthManager, 'keepalive_at', 21,
                        host='hm2')
        self.meanwhile(lambda: publish(FIRST))
        self.assertWaits(*argv)

# SPDX-License-Identifier: Apache-2.0

"""A jobboard that goes away and comes back."""

from tests.functional import test_jobboard


class TestRedis(test_jobboard.JobboardCase):

    def test_redis_stops_and_starts(self):
        # More than the worker does in one job.
        self.begin(24, 0.5, 'worker')
        self.wait_until_applied(self.ids(self.amphorae))
        worker, = self.workers

        # A sync that begins while it is there goes on when it is not.
        self.make_due()
        self.wait_for(lambda: self.claimed_by(worker), 'job')
        self.redis.stop()
        self.wait_until_applied(self.ids(self.amphorae))
        self.wait_for(lambda: 'The jobboard cannot be used' in
                      self.housekeeping.log(), 'warning')
        self.assertGreater(self.configured_by(self.housekeeping), 0)

        self.redis.start()
        self.wait_for(lambda: 'octavia-hmsync works again' in
                      self.housekeeping.log(), 'jobboard again')
        before = self.configured_by(worker)
        self.make_due()
        self.wait_until_applied(self.ids(self.amphorae))
        self.assertGreater(self.configured_by(worker), before)
        self.assertEqual(1, self.housekeeping.log().count(
            'The jobboard cannot be used'))

        # One that hangs is no better than one that is down.
        before = self.configured_by(self.housekeeping)
        self.redis.pause()
        self.addCleanup(self.redis.resume)
        self.make_due()
        self.wait_until_applied(self.ids(self.amphorae))
        self.assertGreater(self.configured_by(self.housekeeping), before)
        for amphora in self.amphorae:
            self.assertEqual([], amphora.overlaps())

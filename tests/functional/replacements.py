# SPDX-License-Identifier: Apache-2.0

"""What tests of replacements on a whole Octavia share."""

import threading

import fixtures
from oslo_utils import uuidutils
import sqlalchemy as sa

from octavia_hmsync.image.db import replacement as replace_repo
from tests.cloud import waiting
from tests.functional import images


class Numbers(fixtures.Fixture):
    """Looks at a number again and again; .seen has all that it was."""

    def __init__(self, count):
        super().__init__()
        self._count = count
        self._ended = threading.Event()
        self.seen = set()

    def _setUp(self):
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._ended.set)

    def _look(self):
        while not self._ended.wait(0.1):
            self.seen.add(self._count())


class ReplacementTestCase(images.ImageTestCase):
    """Asks for replacements as "image replace" does, and follows them."""

    def begin(self, load_balancer, image, replacement_id=None, mode='replace',
              **kwargs):
        """Have the amphorae of a load balancer replaced.

        :returns: the id of the replacement.
        """
        new = replace_repo.New(
            replacement_id or uuidutils.generate_uuid(), load_balancer.id,
            mode, image.id, **kwargs)
        self.assertTrue(replace_repo.add(self.cloud.engine, new))
        return new.id

    def get(self, replacement_id):
        return replace_repo.get(self.cloud.engine, replacement_id)

    def wait_until_ended(self, replacement_id, timeout=waiting.LIMIT):
        """Wait for the end of a replacement; returns its row."""
        return self.cloud.wait_for(
            lambda: self.is_ended(replacement_id),
            lambda: f'end of {self.get(replacement_id)}', timeout)

    def is_ended(self, replacement_id):
        found = self.get(replacement_id)
        return (None if found.state in replace_repo.OPEN_STATES
                else found)

    def replace(self, load_balancer, image, timeout=waiting.LIMIT,
                **kwargs):
        """Have it done; returns the row of the replacement."""
        return self.wait_until_ended(
            self.begin(load_balancer, image, **kwargs), timeout)

    def assertDone(self, replacement):
        self.assertEqual(('DONE', None),
                         (replacement.state, replacement.reason))

    def lapse(self):
        """Let the time pass after which claims lapse."""
        with self.cloud.engine.begin() as connection:
            connection.execute(sa.text(
                "UPDATE hmsync_image_replacement SET claim_expires_at = "
                "'2020-01-01' WHERE claim_expires_at IS NOT NULL"))

    def kill(self, step):
        """Kill the housekeeper hard that is at a step; for Steps.at()."""
        self.house_keeper_at(step).kill_tree()

    def house_keeper_at(self, step):
        return next(each for each in self.cloud.house_keepers
                    if step.pid in each.members())

    def watch_numbers(self, load_balancer):
        """Count, from now on, its amphorae that are in service.

        :returns: a Numbers.
        """
        return self.useFixture(Numbers(
            lambda: self._count_in_service(load_balancer)))

    def _count_in_service(self, load_balancer):
        # In this order one that goes meanwhile is not counted, and the
        # others are.
        running = {each.instance_name.removeprefix('amphora-')
                   for each in list(self.cloud.compute.instances.values())
                   if each.running}
        return sum(row['status'] == 'ALLOCATED' and row['id'] in running
                   for row in self.amphorae(load_balancer).values())

    def drop(self, image):
        """Have an image be one that nobody boots any more."""
        self.cloud.connection.image.delete_image(image.id)

# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.conf import image as image_conf
from octavia_hmsync import exceptions
from tests.unit import base


class TestCheck(base.TestCase):

    def test_windows(self):
        image_conf.check(self.make_conf())
        image_conf.check(self.make_conf(hmsync_image={
            'rollout_windows': 'Sat,Sun 01:00-05:00; Wed 02:00-03:00'}))
        for text, words in (('Sat 05:00-05:00', 'never opens'),
                            ('at night', 'cannot be read')):
            e = self.assertRaises(
                exceptions.InvalidConfiguration, image_conf.check,
                self.make_conf(hmsync_image={'rollout_windows': text}))
            self.assertIn('[hmsync_image] rollout_windows', str(e))
            self.assertIn(words, str(e))

#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


from octavia_hmsync import exceptions
from octavia_hmsync.image import conf as image_conf
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

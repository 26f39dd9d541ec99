# SPDX-License-Identifier: Apache-2.0

import threading
from unittest import mock

from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image import target
from tests.unit import base
from tests.unit.image import fakes


class TestTag(base.TestCase):

    def test_tags(self):
        for flavor_data, expected in (
                (None, 'default'), ('{}', 'default'),
                ('{"amp_image_tag": "arm"}', 'arm'),
                ('{"amp_image_tag": ""}', ''), ('', None), ('[]', None),
                ('{', None)):
            self.assertEqual(expected, target.get_tag(flavor_data, 'default'),
                             flavor_data)


class TestTargets(base.TestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.ImageDriver({'amphora': 'image1', 'number': 1})
        patch = mock.patch.object(compat, 'load_image_driver', autospec=True,
                                  return_value=self.driver)
        self.load = patch.start()
        self.addCleanup(patch.stop)
        self.conf = self.make_conf()
        self.targets = target.Targets(self.conf)

    def test_one_question_for_each_tag(self):
        for _ in range(3):
            self.assertEqual(target.Target('image1'),
                             self.targets.get('amphora'))
            self.assertEqual('1', self.targets.get('number').image_id)
            self.assertIsNone(self.targets.get('arm').image_id)
        self.assertEqual([('amphora', None), ('number', None),
                          ('arm', None)], self.driver.asked)
        self.assertEqual(1, self.load.call_count)

    def test_owner(self):
        self.conf.set_override('amp_image_owner_id', 'owner1',
                               group='controller_worker')
        targets = target.Targets(self.conf)
        targets.get('amphora')
        self.assertEqual([('amphora', 'owner1')], self.driver.asked)
        self.assertIn('belongs to amp_image_owner_id owner1',
                      targets.get('arm').problem)

    def test_no_image(self):
        self.assertIn('No image has the tag arm and is active',
                      self.targets.get('arm').problem)

    def test_nobody_is_asked(self):
        """Without a tag, or with a flavor that cannot be read."""
        self.assertIn('amp_image_tag', self.targets.get('').problem)
        self.assertIn('flavor', self.targets.get(None).problem)
        self.assertEqual([], self.driver.asked)

    def assertUnavailable(self, words):
        e = self.assertRaises(exceptions.CloudUnavailable, self.targets.get,
                              'amphora')
        self.assertIn(words, str(e))
        self.assertNotIn('\n', str(e))

    def test_no_answer(self):
        self.driver.images['amphora'] = ValueError('a\n b')
        self.assertUnavailable('(ValueError: a b)')
        # Whoever has no answer does not wait for the next one, either.
        self.driver.images['arm'] = 'image2'
        self.assertRaises(exceptions.CloudUnavailable, self.targets.get,
                          'arm')
        self.assertEqual(1, len(self.driver.asked))
        self.assertEqual('image2',
                         target.Targets(self.conf).get('arm').image_id)

    def test_no_driver(self):
        self.load.side_effect = ImportError('no driver')
        self.assertUnavailable('no driver')

    def test_an_answer_that_never_comes(self):
        self.conf.set_override('image_timeout', 1, group='hmsync_image')
        event = self.driver.images['amphora'] = threading.Event()
        self.addCleanup(event.set)
        self.assertUnavailable('within 1 s')

    def test_what_an_image_needs(self):
        """Asked for once, of Octavia's own driver for Glance only."""
        self.assertIsNone(self.targets.get_needs('image1'))
        asked = []

        def read(driver, image_id):
            asked.append((driver, image_id))
            return {'min_disk': 2, 'min_ram': 512, 'size': 7,
                    'virtual_size': None}

        patch = mock.patch.object(compat, 'read_image', autospec=True,
                                  side_effect=read)
        patch.start()
        self.addCleanup(patch.stop)
        for _ in range(2):
            self.assertEqual(target.ImageNeeds(2, 512, 7),
                             self.targets.get_needs('image2'))
        self.assertEqual([(self.driver, 'image2')], asked)

    def test_image_cannot_be_read(self):
        patch = mock.patch.object(compat, 'read_image', autospec=True,
                                  side_effect=OSError('no answer'))
        patch.start()
        self.addCleanup(patch.stop)
        for _ in range(2):
            e = self.assertRaises(exceptions.CloudUnavailable,
                                  self.targets.get_needs, 'image1')
            self.assertIn('what the image image1 needs', str(e))
        self.assertEqual(1, compat.read_image.call_count)

# SPDX-License-Identifier: Apache-2.0

"""How many load balancers are outdated, and what if nobody knows."""

from unittest import mock

import fixtures

from octavia_hmsync import compat
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image import figures
from octavia_hmsync.metrics import instruments
from tests.cloud import records
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit.image import fakes


class TestSurvey(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level='INFO'))
        self.images = fakes.ImageDriver({'amphora': 'new'})
        patch = mock.patch.object(compat, 'load_image_driver', autospec=True,
                                  return_value=self.images)
        patch.start()
        self.addCleanup(patch.stop)
        self.conf = self.make_conf(
            controller_worker={'amp_image_tag': 'amphora'})
        self.measure = instruments.HouseKeepingInstruments()
        self.subject = figures.Survey(self.conf, self.engine, self.measure)

    def add(self, *images, **values):
        topology = 'SINGLE' if len(images) < 2 else 'ACTIVE_STANDBY'
        lb_id = self.records.add_load_balancer(topology)
        if values:
            self.records.change('load_balancer', lb_id, **values)
        for image_id, role in zip(images, records.ROLES[topology]):
            amphora_id = self.records.add_amphora('192.0.2.1', lb_id, role)
            self.records.change('amphora', amphora_id, image_id=image_id)
        return lb_id

    def look(self):
        """Have it look; returns what is served of both gauges."""
        self.subject.run_once()
        return tuple({
            sample.labels[label]: sample.value
            for family in self.measure.registry.collect()
            for sample in family.samples
            if sample.name == f'octavia_hmsync_image_{name}'}
            for name, label in (('load_balancers', 'outdated'),
                                ('outdated_load_balancers', 'state')))

    def test_nobody(self):
        self.assertEqual(
            ({'NO': 0, 'YES': 0, 'MIXED': 0, 'UNKNOWN': 0},
             {'READY': 0, 'PENDING': 0, 'BLOCKED': 0, 'EXCLUDED': 0}),
            self.look())
        # Nobody is asked for whom there is no load balancer.
        self.assertEqual([], self.images.asked)

    def test_each(self):
        self.add('new')
        self.add('new', 'new')
        self.add(None)
        self.add('old', 'new')
        self.add('old')
        self.add('old', provisioning_status='PENDING_UPDATE')
        self.add('old', provisioning_status='ERROR')
        self.add('old', provider='ovn')
        exclusion_repo.add(self.engine, 'x', 'LOAD_BALANCER',
                           self.add('old'), 'because')
        # One that is excluded, and was brought to its image before.
        exclusion_repo.add(self.engine, 'y', 'LOAD_BALANCER',
                           self.add('new'), 'because')
        self.assertEqual(
            ({'NO': 3, 'YES': 4, 'MIXED': 1, 'UNKNOWN': 1},
             {'READY': 2, 'PENDING': 1, 'BLOCKED': 1, 'EXCLUDED': 1}),
            self.look())
        self.assertEqual([('amphora', None)], self.images.asked)

    def test_image_is_withdrawn(self):
        self.add('old')
        self.assertEqual(1, self.look()[0]['YES'])
        self.images.images['amphora'] = None
        self.assertEqual(({'NO': 0, 'YES': 0, 'MIXED': 0, 'UNKNOWN': 1},
                          {'READY': 0, 'PENDING': 0, 'BLOCKED': 0,
                           'EXCLUDED': 0}), self.look())

    def test_image_service_is_down(self):
        """Old figures are not served; it is said once."""
        self.add('old')
        self.look()
        self.images.images['amphora'] = RuntimeError('down')
        for _ in range(3):
            self.assertEqual(({}, {}), self.look())
        self.assertEqual(1, self.log.output.count('is not known for'))
        self.assertIn('cannot be asked which image has the tag amphora '
                      '(RuntimeError: down)', self.log.output)
        self.images.images['amphora'] = 'new'
        self.assertEqual(1, self.look()[0]['YES'])
        self.assertEqual(1, self.log.output.count('is known again'))

    def test_database_is_down(self):
        self.add('old')
        self.look()
        with mock.patch.object(exclusion_repo, 'get_all', autospec=True,
                               side_effect=RuntimeError('down')):
            self.assertRaises(RuntimeError, self.subject.run_once)
        self.assertEqual(
            [], [family.name for family in self.measure.registry.collect()
                 if 'image_' in family.name and family.samples])

    def test_statements(self):
        """As many for one as for many."""
        counts = []
        for number in (1, 20):
            for _ in range(number):
                self.add('old', 'new')
            with self.count_statements() as statements:
                self.look()
            counts.append(len(statements))
        self.assertEqual(counts[0], counts[1])

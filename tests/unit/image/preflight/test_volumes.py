# SPDX-License-Identifier: Apache-2.0

import dataclasses

from keystoneauth1 import loading
import requests

from octavia_hmsync.cli import finding
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import compute_reading
from octavia_hmsync.image.preflight import facts
from tests.unit import base
from tests.unit.image import fakes
from tests.unit.image.preflight import test_preflight

SUCCESS, WARNING, FAILURE = finding.Severity
SETTINGS = facts.Settings(True, True, 10, 'fast')
SECRET = facts.Hidden('it is a secret')


def make(settings=SETTINGS, zone='az', **values):
    return test_preflight.make(
        settings=settings, build=facts.Build('small', volume_zone=zone),
        volumes=facts.Volumes(**{
            'types': frozenset({'fast'}), 'zones': {'az': True}, **values}))


class TestChecks(test_preflight.CheckTestCase):

    def test_type(self):
        self.assertFound(SUCCESS, compute.check_volume_type, [make()])
        self.assertFailure(compute.check_volume_type,
                           [make(types=frozenset())],
                           'fast')
        self.assertFound(SUCCESS, compute.check_volume_type, [make(
            facts.Settings(has_cinder=True))])

    def test_zone(self):
        for zones, severity in (({'az': True}, SUCCESS),
                                ({'az': False}, WARNING), ({}, WARNING)):
            self.assertFound(severity, compute.check_volume_zone,
                             make(zones=zones))
        self.assertFound(SUCCESS, compute.check_volume_zone,
                         make(zone=None, zones={}))
        self.assertFound(SUCCESS, compute.check_volume_zone,
                         make(facts.Settings(), zones={}))

    def test_quota(self):
        for left, parallel, number, severity, words in (
                ({}, 1, 1, SUCCESS, ()),
                ({'volumes': 0}, 1, 1, FAILURE, ('1 volumes',)),
                ({'gigabytes': 9}, 1, 1, FAILURE, ('10 GB of volumes',)),
                ({'volumes_fast': 0}, 1, 1, FAILURE, ('of the type fast',)),
                ({'gigabytes_slow': 0}, 1, 1, SUCCESS, ()),
                ({'gigabytes': 25}, 3, 2, SUCCESS, ()),
                ({'gigabytes': 25}, 3, 3, WARNING, ('30 GB', 'Cinder'))):
            self.assertFound(severity, compute.check_volume_quota, [make(
                dataclasses.replace(SETTINGS, parallel=parallel),
                left=left)] * number, *words)
        self.assertFailure(compute.check_volume_quota, [make(largest=9)],
                           'may have 9 GB')

    def test_nobody_knows(self):
        none = dataclasses.replace(make(), volumes=None)
        hidden = make(types=SECRET, zones=SECRET, left=SECRET)
        for known, words in ((none, 'Volume service'),
                             (hidden, SECRET.reason)):
            self.assertNotChecked(compute.check_volume_zone, known, words)
            for check in (compute.check_volume_type,
                          compute.check_volume_quota):
                self.assertNotChecked(check, [known], words)


class TestReading(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf()
        loading.register_auth_conf_options(self.conf, 'service_auth')
        self.cinder = fakes.Cinder()

    def read(self, **values):
        return compute_reading.VolumeReader(self.conf, self.cinder).read(
            [make(**values)])

    def test_what_there_is(self):
        self.cinder.quota['gigabytes_fast'] = (-1, 5)
        self.cinder.quota['volumes_fast'] = (2, 5)
        self.assertEqual(facts.Volumes(
            frozenset({'type1', 'fast'}), {'nova': True},
            {'volumes': 7, 'gigabytes': 960, 'gigabytes_fast': None,
             'volumes_fast': 0}), self.read())
        self.cinder.quota['per_volume_gigabytes'] = (20, 0)
        self.assertEqual(20, self.read().largest)

    def test_what_nobody_needs_is_not_asked_for(self):
        self.read(settings=facts.Settings(has_cinder=True), zone=None)
        self.assertEqual(['/os-quota-sets/octavia'], self.cinder.asked)
        self.cinder.current_project_id = None
        self.assertEqual({}, self.read().left)

    def test_at_each_request(self):
        self.read()
        for path in set(self.cinder.asked):
            for error, kind in (
                    (500, exceptions.CloudUnavailable),
                    (404, exceptions.CloudRefused),
                    (requests.ConnectionError('no answer'),
                     exceptions.CloudUnavailable)):
                self.cinder.errors = {path: error}
                e = self.assertRaises(kind, self.read)
                self.assertIn('Cinder', f'{e} Cinder' if kind is
                              exceptions.CloudUnavailable else str(e))
                self.assertNotIn('\n', str(e))
            self.cinder.errors = {path: 403}
            found = self.read()
            self.assertEqual(1, sum(
                isinstance(value, facts.Hidden)
                for value in vars(found).values()), path)

# SPDX-License-Identifier: Apache-2.0

import dataclasses
import datetime

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image import outdated
from tests.unit import base

OLD, NEW = 'old', 'new'
STATUSES = ('ALLOCATED', 'ERROR', 'BOOTING', 'PENDING_CREATE',
            'FAILOVER_STOPPED')

AMPHORAE = st.lists(st.builds(
    outdated.Amphora, id=st.uuids().map(str), status=st.sampled_from(STATUSES),
    image_id=st.sampled_from((OLD, NEW, 'older', None)),
    is_busy=st.booleans()), max_size=4).map(tuple)
LOAD_BALANCERS = st.builds(
    outdated.LoadBalancer, id=st.just('lb1'), name=st.just('lb1'),
    project_id=st.just('demo'),
    provider=st.sampled_from(('amphora', 'octavia', None, 'ovn')),
    topology=st.sampled_from(('SINGLE', 'ACTIVE_STANDBY', None, 'OTHER')),
    status=st.sampled_from(('ACTIVE', 'ERROR', 'PENDING_UPDATE',
                            'PENDING_CREATE')),
    amphorae=AMPHORAE)


def make(*images, topology='SINGLE', **values):
    """A load balancer whose ALLOCATED amphorae have these images."""
    values = {'provider': 'amphora', 'status': 'ACTIVE', **values}
    return outdated.LoadBalancer(
        id='lb1', name='lb1', project_id='demo', topology=topology,
        amphorae=tuple(outdated.Amphora(f'amphora{n}', 'ALLOCATED',
                                        image_id=image)
                       for n, image in enumerate(images)), **values)


def add(load_balancer, **values):
    """The same with one more amphora."""
    return dataclasses.replace(load_balancer, amphorae=(
        *load_balancer.amphorae, outdated.Amphora('another', **values)))


class TestJudge(base.TestCase):

    def test_table(self):
        for images, target, expected in (
                ((NEW,), NEW, 'NO'), ((OLD,), NEW, 'YES'),
                ((NEW, NEW), NEW, 'NO'), ((OLD, OLD), NEW, 'YES'),
                ((OLD, NEW), NEW, 'MIXED'), ((OLD, 'older'), NEW, 'MIXED'),
                ((None,), NEW, 'UNKNOWN'), ((NEW, None), NEW, 'UNKNOWN'),
                ((OLD, None), NEW, 'YES'), ((), NEW, 'UNKNOWN'),
                ((OLD,), None, 'UNKNOWN'), ((OLD, NEW), None, 'MIXED')):
            self.assertEqual(expected, outdated.judge(make(*images), target),
                             (images, target))

    def test_only_those_that_serve(self):
        for status in STATUSES[1:]:
            self.assertEqual('NO', outdated.judge(
                add(make(NEW), status=status, image_id=OLD), NEW))

    @hypothesis.given(LOAD_BALANCERS, st.sampled_from((OLD, NEW, None)))
    def test_in_any_world(self, load_balancer, target):
        judged = outdated.judge(load_balancer, target)
        wrong = outdated.get_outdated(load_balancer, target)
        if judged is outdated.Outdated.NO:
            self.assertEqual([], wrong)
        if target is not None and judged in ('YES', 'MIXED'):
            self.assertNotEqual([], wrong)
        if wrong:
            self.assertIn(judged, ('YES', 'MIXED'))
        if target is None:
            self.assertIn(judged, ('UNKNOWN', 'MIXED'))


class TestBlocks(base.TestCase):

    def assertBlocked(self, expected, load_balancer, target=NEW):
        self.assertEqual(expected, outdated.get_blocks(load_balancer, target))

    def test_nothing(self):
        self.assertBlocked((), make(OLD))
        self.assertBlocked((), make(OLD, NEW, topology='ACTIVE_STANDBY'))
        self.assertBlocked((), make(None))
        for provider in (None, 'octavia'):
            self.assertBlocked((), make(OLD, provider=provider))

    def test_provider(self):
        """Of another one nothing else is looked at."""
        self.assertBlocked(('OTHER_PROVIDER',),
                           make(provider='ovn', topology=None), None)

    def test_cluster(self):
        """Its members are busy all their life: that is no block."""
        cluster = {'provider': 'amphora_cluster',
                   'topology': 'ACTIVE_ACTIVE'}
        self.assertBlocked((), add(make(OLD, OLD, **cluster),
                                   status='ALLOCATED', is_busy=True))
        self.assertBlocked(('PENDING',), make(
            OLD, status='PENDING_UPDATE', **cluster))
        self.assertBlocked(('ERROR', 'AMPHORA_ERROR'), add(make(
            OLD, **cluster, status='ERROR'), status='ERROR'))

    def test_state(self):
        self.assertBlocked(('ERROR',), make(OLD, status='ERROR'))
        for status in ('PENDING_UPDATE', 'PENDING_CREATE'):
            self.assertBlocked(('PENDING',), make(OLD, status=status))

    def test_topology(self):
        for topology in (None, 'ACTIVE_ACTIVE'):
            self.assertBlocked(('UNKNOWN_TOPOLOGY',),
                               make(OLD, topology=topology))

    def test_amphorae(self):
        pair = make(OLD, topology='ACTIVE_STANDBY')
        self.assertBlocked(('AMPHORA_ERROR',), add(pair, status='ERROR'))
        self.assertBlocked(('AMPHORA_BUSY',), add(pair, status='BOOTING'))
        self.assertBlocked(('AMPHORA_BUSY',), add(
            pair, status='ALLOCATED', is_busy=True))
        self.assertBlocked(('AMPHORA_ERROR', 'AMPHORA_BUSY'), add(
            pair, status='ERROR', is_busy=True))
        self.assertBlocked(('AMPHORA_COUNT',), pair)
        self.assertBlocked(('AMPHORA_COUNT',), make(OLD, OLD))
        self.assertBlocked(('AMPHORA_COUNT',), make())

    def test_no_image(self):
        self.assertBlocked(('NO_IMAGE',), make(OLD), None)

    @hypothesis.given(LOAD_BALANCERS, st.sampled_from((NEW, None)))
    def test_in_any_world(self, load_balancer, target):
        """What is not blocked can be replaced, and is whole before."""
        if outdated.get_blocks(load_balancer, target):
            return
        self.assertEqual('ACTIVE', load_balancer.status)
        self.assertIsNotNone(target)
        self.assertEqual(
            {'SINGLE': 1, 'ACTIVE_STANDBY': 2}[load_balancer.topology],
            len(load_balancer.amphorae))
        self.assertEqual({'ALLOCATED'},
                         {a.status for a in load_balancer.amphorae})


NOW = datetime.datetime(2026, 11, 23)
VALUES = st.sampled_from(['a', 'b', 'c'])


def exclude(kind, value):
    return exclusion_repo.Exclusion(kind, value, 'because', NOW, None)


def load_balancer(lb_id='lb', project_id='project', flavor_id=None,
                  zone=None):
    return outdated.LoadBalancer(lb_id, 'name', project_id, 'amphora',
                                 'SINGLE', 'ACTIVE', flavor_id, zone)


class TestExclusions(base.TestCase):

    def find(self, excluded, one, tagged=()):
        return outdated.Exclusions(excluded, dict(tagged)).find(one)

    def test_each_kind(self):
        one = load_balancer(flavor_id='flavor', zone='az1')
        tagged = {'lb': ['fragile']}
        for kind, value in (('LOAD_BALANCER', 'lb'), ('PROJECT', 'project'),
                            ('TAG', 'fragile'), ('FLAVOR', 'flavor'),
                            ('ZONE', 'az1')):
            excluded = exclude(kind, value)
            self.assertEqual(excluded, self.find([excluded], one, tagged))
            self.assertIsNone(self.find([exclude(kind, 'other')], one,
                                        tagged))
        self.assertIsNone(self.find([exclude('PROJECT', 'az1')], one))

    def test_none(self):
        self.assertIsNone(self.find([], load_balancer()))
        self.assertIsNone(self.find([exclude('ZONE', 'None')],
                                    load_balancer()))

    @given(st.lists(st.tuples(st.sampled_from(exclusion_repo.KINDS), VALUES)),
           VALUES, VALUES, VALUES | st.none(), VALUES | st.none(),
           st.lists(VALUES))
    def test_excluded_by_any(self, excluded, lb_id, project_id, flavor_id,
                             zone, tags):
        found = self.find(
            [exclude(*key) for key in excluded],
            load_balancer(lb_id, project_id, flavor_id, zone),
            {lb_id: tags})
        fits = {('LOAD_BALANCER', lb_id), ('PROJECT', project_id),
                ('FLAVOR', flavor_id), ('ZONE', zone),
                *(('TAG', tag) for tag in tags)} & set(excluded)
        self.assertEqual(bool(fits), found is not None)
        if found:
            self.assertIn((found.kind, found.value), fits)

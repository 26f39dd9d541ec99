# SPDX-License-Identifier: Apache-2.0

import datetime

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image import exclusions
from octavia_hmsync.image import load_balancer as lb
from tests.unit import base

NOW = datetime.datetime(2026, 11, 23)
VALUES = st.sampled_from(['a', 'b', 'c'])


def exclude(kind, value):
    return exclusion_repo.Exclusion(kind, value, 'because', NOW, None)


def load_balancer(lb_id='lb', project_id='project', flavor_id=None,
                  zone=None):
    return lb.LoadBalancer(lb_id, 'name', project_id, 'amphora', 'SINGLE',
                           'ACTIVE', flavor_id, zone)


class TestExclusions(base.TestCase):

    def find(self, excluded, one, tagged=()):
        return exclusions.Exclusions(excluded, dict(tagged)).find(one)

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

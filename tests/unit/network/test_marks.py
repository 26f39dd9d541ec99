# SPDX-License-Identifier: Apache-2.0

"""What is ours in Neutron, and what is not."""

from openstack.network.v2 import network

from octavia_hmsync.network import marks
from tests.unit import base

MARK = marks.Mark('net', marks.NETWORK)
DESCRIPTION = MARK.description('call1')


def resource(tags=(), description='', name='net'):
    return network.Network(name=name, tags=list(tags),
                           description=description)


class TestMark(base.TestCase):

    def test_ours(self):
        for ours in (resource(MARK.tags), resource(description=DESCRIPTION),
                     resource([*MARK.tags, 'theirs'], 'something'),
                     resource(MARK.tags, name='other')):
            self.assertTrue(MARK.is_on(ours), ours)
            self.assertFalse(marks.is_orphaned(ours))

    def test_not_ours(self):
        for role, name in ((marks.SUBNET, 'net'), (marks.NETWORK, 'net2'),
                           (marks.NETWORK, 'ne')):
            other = marks.Mark(name, role)
            self.assertFalse(MARK.is_on(resource(other.tags)))
            self.assertFalse(MARK.is_on(
                resource(description=other.description('call1'))))
        self.assertFalse(MARK.is_on(resource()))
        self.assertFalse(MARK.is_on(resource(MARK.tags[:2])))
        self.assertFalse(MARK.is_on(network.Network(name='net')))

    def test_orphaned_by_one_of_its_marks(self):
        """Whatever a command that died has left of the others."""
        description = marks.orphaned_description('net')
        for orphan in (resource([marks.ORPHANED_TAG], DESCRIPTION),
                       resource(MARK.tags, description),
                       resource([marks.ORPHANED_TAG], description)):
            self.assertTrue(marks.is_orphaned(orphan))
            self.assertFalse(MARK.is_on(orphan))

    def test_tags_of_others_are_kept(self):
        self.assertEqual(['a', 'b'], marks.without_ours(
            ['a', *MARK.tags, marks.ORPHANED_TAG, 'b']))
        self.assertEqual([], marks.without_ours(None))

    def test_it_fits_into_neutron(self):
        longest = marks.Mark('n' * 140, marks.HEALTH_MANAGER_GROUP)
        for text in (longest.description('c' * 32),
                     marks.orphaned_description('n' * 140), *longest.tags):
            self.assertLessEqual(len(text), 255)
        self.assertFalse(any(',' in tag for tag in longest.tags))

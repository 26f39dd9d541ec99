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

import collections

from oslotest import base

from octavia_hmsync.cluster import idle
from octavia_hmsync.db.repositories import cluster as cluster_repo
from tests.unit.cluster import distributors

Listener = collections.namedtuple(
    'Listener', 'timeout_client_data timeout_member_data '
                'timeout_member_connect timeout_tcp_inspect')


class TestChoose(base.BaseTestCase):

    def test_choose(self):
        defaults = Listener(50000, 50000, 5000, 0)
        for listeners, expected in (
                ([], 60), ([defaults], 75),
                ([defaults, Listener(90500, 50000, 5000, 0)], 91),
                ([Listener(50000, 600000, 5000, 0)], 625),
                ([Listener(1000, 1000, 1000, 80000)], 80),
                ([Listener(1000, 1000, None, None)], 60),
                # Never closed, or not known.
                ([defaults, Listener(0, 50000, 5000, 0)], 3600),
                ([Listener(50000, 0, 5000, 0)], 3600),
                ([Listener(None, None, None, None)], 3600),
                ([Listener(86400000, 50000, 5000, 0)], 3600)):
            self.assertEqual(expected, idle.choose(listeners, 3600))


class TestRecord(distributors.DistributorTestCase):

    def test_told(self):
        """Distributors remember what can be there, and no longer."""
        self.cluster_id = self.add_cluster()
        self.vips.add(self.cluster_id)
        self.subject.apply(self.cluster_id)
        self.assertEqual(3600, self.get_told())
        cluster = cluster_repo.get(self.engine, self.cluster_id)
        listener = self.records.add_listener(cluster.load_balancer_id)
        self.change(listener, 50000)
        self.assertEqual(75, self.get_told())
        # At once, as connections may be silent for longer from now on.
        idle.allow(self.engine, self.cluster_id,
                   [Listener(200000, 50000, 5000, 0)], 3600)
        self.watch.look()
        self.assertEqual(200, self.get_told())
        # Those of before may be there still.
        self.change(listener, 50000)
        self.assertEqual(200, self.get_told())
        self.change(listener, 0)
        self.assertEqual(3600, self.get_told())

    def change(self, listener, timeout):
        self.records.change(
            'listener', listener, timeout_client_data=timeout,
            timeout_member_data=50000, timeout_member_connect=5000,
            timeout_tcp_inspect=0)
        self.now += 61
        self.watch.look()

    def get_told(self):
        told, = {one.documents[self.cluster_id].pin_timeout
                 for one in self.fakes.values()
                 if self.cluster_id in one.documents}
        return told

# SPDX-License-Identifier: Apache-2.0

"""Clients that ask often see of a cluster what they see without the plugin.

Those that ask less are in test_cluster_provider.py.
"""

from oslotest import base

from tests.cloud import api_clients
from tests.cloud import front
from tests.functional import clients


class TestClients(clients.ClientsMixin, base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.front = self.useFixture(front.Front())
        self.front.workers.serve(front.CLUSTER_TOPIC)

    def test_each_sees_the_same(self):
        self.assertEachSeesTheSame(
            api_clients.OctaviaCommands, api_clients.Heat,
            api_clients.Terraform)

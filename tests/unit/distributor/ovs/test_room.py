# SPDX-License-Identifier: Apache-2.0

import types

from oslotest import base

from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import room

_OPTIONS = types.SimpleNamespace(max_pins=1000, max_flows=1000)


class TestRooms(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.flows = 0
        self.now = 100.0
        self.rooms = room.Rooms(self, _OPTIONS, lambda: self.now)

    def read_load(self):
        return ofctl.Load(self.flows, 0, 1000)

    def measure(self, flows):
        self.flows = flows
        self.rooms.measure({})
        return self.rooms.get('vip1')

    def test_it_returns(self):
        self.assertIs(pipeline.Room.ENOUGH, self.measure(0))
        self.assertIs(pipeline.Room.SCARCE, self.measure(600))
        self.assertIs(pipeline.Room.NONE, self.measure(990))
        for _ in range(2):
            self.now += room.RETURN - 1
            self.assertIs(pipeline.Room.SCARCE, self.measure(600))
        self.now += 10
        self.assertIs(pipeline.Room.RETURNING, self.measure(0))
        self.now += room.RETURN - 11
        self.assertIs(pipeline.Room.RETURNING, self.measure(0))
        # Of others there are no pins of that time.
        self.assertIs(pipeline.Room.ENOUGH, self.rooms.get('vip2'))
        self.now += 1
        self.assertIs(pipeline.Room.ENOUGH, self.measure(0))

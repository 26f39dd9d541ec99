# SPDX-License-Identifier: Apache-2.0

import collections
import dataclasses
import datetime
import uuid

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution.ovs import documents
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync import exceptions
from tests.unit import base
from tests.unit.cluster.rules import test_handover

NOW = datetime.datetime(2026, 11, 23)
PORT = str(uuid.UUID(int=7))


def make_cluster(version=7, affinity=cluster_repo.FLOW):
    return cluster_repo.Cluster(
        id='c', cluster_name='web', desired_size=4, min_size=2, cooldown=0,
        load_balancer_id='lb', distributor='hmsync_ovs',
        provisioning_status='ACTIVE', operating_status='ONLINE',
        enabled=True, cluster_type='reference', affinity=affinity,
        peer_group_size=2, standby=0, version=version, claimed_by=None,
        claim_expires_at=None, created_at=NOW, updated_at=NOW, now=NOW, size=4,
        resized_at=None)


def make_member(number, state, slot, has_amphora=True, config_digest=None):
    return member_repo.Member(
        id=str(uuid.UUID(int=1000 + number)), cluster_id='c',
        amphora_id=str(uuid.UUID(int=number)) if has_amphora else None,
        slot=slot, peer_group=None if slot is None else slot // 2,
        state=state, health=None, config_digest=config_digest,
        mac=f'fa:16:3e:00:00:{number:02x}' if has_amphora else None,
        error=None, created_at=NOW, updated_at=NOW, now=NOW, ordered=None,
        zone=None, connections=None)


@st.composite
def members(draw):
    slots = draw(st.lists(st.one_of(st.none(), st.integers(0, 7)),
                          max_size=8, unique_by=lambda slot: (
                              object() if slot is None else slot)))
    found = []
    for number, slot in enumerate(slots, 1):
        state = draw(st.sampled_from(member_repo.STATES))
        found.append(make_member(
            number, state, slot, state != member_repo.FAILED or
            draw(st.booleans())))
    return found


class TestDocuments(base.TestCase):

    def make(self, found, addresses=('192.0.2.5',), cluster=None, **values):
        vip = test_handover.vip('d', **{
            'port_id': PORT, 'mac': 'fa:16:3e:00:00:ff', **values})
        return documents.make(cluster or make_cluster(), found, addresses,
                              vip, 3600)

    @given(members(), st.booleans(), st.sampled_from(
        [cluster_repo.FLOW, cluster_repo.SOURCE_IP]))
    def test_any(self, found, is_active, affinity):
        made = self.make(found, cluster=make_cluster(9, affinity),
                         active=is_active)
        self.assertEqual(made, doc.parse(made.to_dict()))
        self.assertEqual((9, is_active, affinity),
                         (made.version, made.active, made.affinity))
        told = {member.slot: member.state for member in made.members}
        groups = collections.Counter(
            member.peer_group for member in made.members)
        for member in found:
            if member.slot is None:
                if member.state == member_repo.DRAINING and member.mac:
                    # It has its connections, and is in nobody's way.
                    entry, = (each for each in made.members
                              if each.id == member.amphora_id)
                    self.assertEqual(doc.DRAINING, told.pop(entry.slot))
                    self.assertEqual(1, groups[entry.peer_group])
                continue
            expected = {member_repo.ACTIVE: doc.ACTIVE,
                        member_repo.DRAINING: doc.DRAINING,
                        member_repo.FAILED: doc.DEAD}.get(member.state)
            # One that is being built is nothing to a distributor.
            self.assertEqual(expected, told.pop(member.slot, None))
        self.assertEqual({}, told)
        # New connections go to no other ones than to those.
        self.assertEqual(
            {member.amphora_id for member in found
             if member.state == member_repo.ACTIVE and
             member.slot is not None},
            {member.id for member in made.members
             if member.state == doc.ACTIVE})

    def test_one_that_is_alone(self):
        """Others have its clients, while they are there and know them."""
        alone = make_member(1, 'ACTIVE', 0, config_digest=member_repo.ALONE)
        peer, other = (make_member(2 + slot, 'ACTIVE', slot)
                       for slot in (1, 2))
        gone = dataclasses.replace(peer, state='FAILED')
        for affinity, members, state in (
                (cluster_repo.SOURCE_IP, (alone, peer, other), doc.DRAINING),
                (cluster_repo.SOURCE_IP, (alone, gone, other), doc.ACTIVE),
                (cluster_repo.SOURCE_IP, (alone, other), doc.ACTIVE),
                (cluster_repo.FLOW, (alone, peer, other), doc.ACTIVE)):
            made = self.make(members, cluster=make_cluster(7, affinity))
            self.assertEqual([state], [
                member.state for member in made.members if member.slot == 0])
        made = self.make((alone, peer, other),
                         cluster=make_cluster(7, cluster_repo.SOURCE_IP))
        self.assertEqual(
            {0: [1], 1: [1], 2: [2]},
            {number: [target.slot for target in targets] for number, targets
             in mapping.of_document(made).slots})

    @given(members(), st.randoms())
    def test_order_is_nothing(self, found, random):
        shuffled = list(found)
        random.shuffle(shuffled)
        self.assertEqual(
            self.make(found, ['192.0.2.5', 'fd00::5']),
            self.make(shuffled, ['fd00::5', '192.0.2.5']))

    def test_no_port_yet(self):
        e = self.assertRaises(exceptions.InvalidDocument, self.make, [],
                              mac=None)
        self.assertIn('no port yet on the distributor d', str(e))

    def test_partners(self):
        """Those with a port, but not itself, and not too many."""
        vips = [test_handover.vip(f'd{n}', mac=f'fa:16:3e:00:01:{n:02x}')
                for n in range(6)]
        vips[4] = dataclasses.replace(vips[4], port_id=None)
        vips[5] = dataclasses.replace(vips[5], mac=None)
        own = dataclasses.replace(vips[0], port_id=PORT)
        for number, expected in ((1, []), (2, [1]), (6, [1, 2, 3])):
            made = documents.make(make_cluster(), [], ['192.0.2.5'], own, 60,
                                  vips[:number][::-1])
            self.assertEqual(tuple(vips[n].mac for n in expected),
                             made.partners)

    def test_peers(self):
        """Whose haproxy is asked, where members are looked at."""
        found = [make_member(1, member_repo.ACTIVE, 0),
                 make_member(2, member_repo.DRAINING, 1),
                 make_member(3, member_repo.STANDBY, None),
                 make_member(4, member_repo.ACTIVE, 2),
                 make_member(5, member_repo.FAILED, 3, has_amphora=False)]
        own = {member.amphora_id: f'192.0.2.{20 + slot}' for slot, member in
               enumerate(found) if member.amphora_id and slot != 3}
        cluster = dataclasses.replace(make_cluster(), ports='80')
        vip = test_handover.vip('d', port_id=PORT, mac='fa:16:3e:00:00:ff',
                                addresses='192.0.2.9')

        def make(*args):
            return documents.make(cluster, found, ['192.0.2.5'], vip, 60, (),
                                  *args).probe

        self.assertEqual(
            {(member.amphora_id, own[member.amphora_id], 1025)
             for member in found[:2]},
            {(peer.id, peer.address, peer.port) for peer in make(own).peers})
        self.assertEqual((), make().peers)

    def test_no_address(self):
        self.assertRaises(exceptions.InvalidDocument, self.make, [], ())

# SPDX-License-Identifier: Apache-2.0

"""A call of every function that a cluster manager goes by.

See ``tests.db_cases.calls``.
"""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_sight as sight_repo
from octavia_hmsync.cluster.db import view as view_repo
from tests.db_cases.cluster import calls as cluster_calls

CALLS = []


def _call(function):
    def add(method):
        CALLS.append((function, method.__name__))
        return method
    return add


class ManagerCalls(cluster_calls.ClusterCalls):

    @_call(cluster_repo.set_operating_status)
    def set_operating_status(self):
        return self._make(), 'DEGRADED'

    @_call(cluster_repo.set_sizes)
    def set_sizes(self):
        return self._make(), 3, 1, 30, 2

    @_call(cluster_repo.resize)
    def resize(self):
        cluster_id = self._make()
        cluster_repo.set_sizes(self.engine, cluster_id, 3)
        return cluster_id, 3

    @_call(member_repo.set_health)
    def set_health(self):
        self._make()
        return 'member1', 'SUSPECT', 'silent'

    @_call(member_repo.set_order)
    def set_order(self):
        self._make()
        return 'member1', 'DRAIN'

    @_call(member_repo.drain)
    def drain_member(self):
        self._make()
        return 'member1',

    @_call(member_repo.resume)
    def resume_member(self):
        self._make()
        member_repo.set_state(self.engine, 'member1', member_repo.STATES,
                              'DRAINING')
        member_repo.record(self.engine, 'member1', config_digest='digest')
        return 'member1',

    @_call(member_repo.unregister)
    def unregister_member(self):
        self._make()
        return 'member1', 'dead'

    @_call(view_repo.read)
    def read_view(self):
        self._see()
        amphora, = self.add_amphorae(1)
        member_repo.assign_amphora(self.engine, 'spare', amphora)
        return 'cluster1', 20

    def _see(self):
        self._make()
        sight_repo.record(self.engine, 'network1', {
            'member0': sight_repo.Look('UP'),
            'member1': sight_repo.Look('DOWN', 'no answer')})

    @_call(sight_repo.record)
    def record_first_sights(self):
        self._make()
        return 'network1', {'member0': sight_repo.Look('UP'),
                            'nobody': sight_repo.Look('DOWN')}

    @_call(sight_repo.record)
    def record_sights(self):
        self._see()
        return 'network1', {'member0': sight_repo.Look('DOWN', 'no answer'),
                            'member1': sight_repo.Look('UP')}

    @_call(sight_repo.get_of_cluster)
    def get_sights_of_cluster(self):
        self._see()
        return 'cluster1',

    @_call(sight_repo.get_of_observer)
    def get_sights_of_observer(self):
        self._see()
        return 'network1',

    @_call(sight_repo.forget)
    def forget_sights(self):
        self._see()
        return 'network1',

    # Front ends

    @_call(front_repo.get_of_cluster)
    def get_front_ends(self):
        return self._make(),

    @_call(front_repo.get_all)
    def get_all_front_ends(self):
        self._make()
        return ()

    @_call(front_repo.get_vip_ports)
    def get_vip_ports(self):
        self._make()
        return ()

    @_call(front_repo.get_own_addresses)
    def get_own_addresses(self):
        return self._make(),

    @_call(front_repo.get_lookers)
    def get_lookers(self):
        self._make()
        return ()

    @_call(front_repo.get_listener_ports)
    def get_listener_ports(self):
        cluster_id = self._make()
        self.records.add_listener(self.records.add_load_balancer(
            load_balancer_id=cluster_repo.get(
                self.engine, cluster_id).load_balancer_id))
        return ()

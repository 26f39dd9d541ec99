# SPDX-License-Identifier: Apache-2.0

"""A call of every function that a cluster manager goes by.

See ``tests.db_cases.calls``.
"""

import datetime

from octavia_hmsync.cluster.db import admission as admission_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_host as host_repo
from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
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

    @_call(cluster_repo.ask_for_size)
    def ask_for_size(self):
        return self._make(), 4, 5

    @_call(cluster_repo.hold_builds)
    def hold_builds(self):
        return self._make(), 60

    @_call(cluster_repo.end_hold)
    def end_hold(self):
        cluster_id = self._make()
        cluster_repo.hold_builds(self.engine, cluster_id, 60)
        return cluster_id,

    @_call(host_repo.scan)
    def scan_hosts(self):
        self._make()
        return ['reference'],

    @_call(load_repo.scan)
    def scan_loads(self):
        self._make()
        return ['reference'],

    @_call(load_repo.record)
    def record_load(self):
        self._make()
        return [(load_repo.Sum('member1', 3, load_repo.Counted(
            datetime.datetime(2026, 1, 1), 100, 1000), None), None)],

    @_call(load_repo.get_of_cluster)
    def get_loads(self):
        return self._make(),

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
        probe_repo.record(self.engine, 'network1', {
            'member0': probe_repo.Result('UP'),
            'member1': probe_repo.Result('DOWN', 'no answer')})

    @_call(probe_repo.record)
    def record_first_probes(self):
        self._make()
        return 'network1', {'member0': probe_repo.Result('UP'),
                            'nobody': probe_repo.Result('DOWN')}

    @_call(probe_repo.record)
    def record_probes(self):
        self._see()
        return 'network1', {'member0': probe_repo.Result('DOWN', 'no answer'),
                            'member1': probe_repo.Result('UP')}

    @_call(probe_repo.get_of_cluster)
    def get_probes_of_cluster(self):
        self._see()
        return 'cluster1',

    @_call(probe_repo.get_of_observer)
    def get_probes_of_observer(self):
        self._see()
        return 'network1',

    @_call(probe_repo.forget)
    def forget_probes(self):
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

    @_call(front_repo.get_subnets)
    def get_subnets(self):
        self._make()
        return ()

    @_call(admission_repo.get_all)
    def get_admissions(self):
        self._make()
        return ()

    @_call(front_repo.get_own_addresses)
    def get_own_addresses(self):
        return self._make(),

    @_call(front_repo.get_probers)
    def get_probers(self):
        self._make()
        return ()

    @_call(front_repo.get_listener_ports)
    def get_listener_ports(self):
        cluster_id = self._make()
        self.records.add_listener(self.records.add_load_balancer(
            load_balancer_id=cluster_repo.get(
                self.engine, cluster_id).load_balancer_id))
        return ()

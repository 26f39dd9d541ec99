# SPDX-License-Identifier: Apache-2.0

"""A call of every function of the repository of looks.

See ``tests.db_cases.calls``.
"""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.db import tls as tls_repo
from octavia_hmsync.cluster.db import traffic as traffic_repo
from octavia_hmsync.sync.db import uncounted as uncounted_repo
from tests.db_cases.cluster import calls as cluster_calls

CALLS = []


def _call(function):
    def add(method):
        CALLS.append((function, method.__name__))
        return method
    return add


class MemberFactsCalls(cluster_calls.ClusterCalls):

    @_call(cluster_repo.mark)
    def notice(self):
        return self._make(),

    @_call(cluster_repo.set_ports)
    def set_ports(self):
        return self._make(), [80, 443]

    @_call(facts_repo.get_ports)
    def get_ports(self):
        lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.add_listener(lb_id)
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=lb_id))
        cluster_repo.set_status(self.engine, 'cluster1', 'ACTIVE')
        return ()

    @_call(facts_repo.get_heard)
    def get_heard_listeners(self):
        self._make()
        return 'amphora1',

    @_call(facts_repo.get_reported)
    def get_reported(self):
        self._make()
        return ['listener1', 'listener2'],

    @_call(uncounted_repo.get)
    def get_uncounted(self):
        self._make()
        return ()

    @_call(uncounted_repo.count)
    def count_heartbeat(self):
        self._make()
        return 'amphora1',

    @_call(facts_repo.get_connections)
    def get_connections(self):
        self._make()
        member_repo.set_state(self.engine, 'member1', ('ACTIVE',), 'DRAINING')
        return 12,

    @_call(member_repo.raise_idle_timeout)
    def raise_idle_timeout(self):
        return self._make(), 50

    @_call(tls_repo.get_all)
    def get_those_with_tls(self):
        return self.get_ports()

    @_call(tls_repo.get_agents)
    def get_agents(self):
        return self._make(),

    @_call(traffic_repo.get_all)
    def get_traffic(self):
        self._make()
        return ()

    @_call(facts_repo.forget_connections)
    def forget_connections(self):
        self._make()
        member_repo.record(self.engine, 'member1', connections=5)
        return ()

# SPDX-License-Identifier: Apache-2.0

"""A call of every function of the repositories of clusters.

See ``tests.db_cases.calls``.
"""

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.db import figures as figures_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_health as health_repo
from octavia_hmsync.cluster.db import restore as restore_repo
from octavia_hmsync.cluster.db import shown_status
from octavia_hmsync.cluster.db import vip as address_repo
from octavia_hmsync.image.db import restore as snapshot_repo
from tests.db_cases import base

LONG = 4000
DRIVER = 'hmsync_ovs'
DISTRIBUTORS = {'network1': 'https://network1:9444',
                'network2': 'https://network2:9444'}
CALLS = []


def _call(function):
    def add(method):
        CALLS.append((function, method.__name__))
        return method
    return add


def new(number=1, **values):
    return cluster_repo.New(**{
        'id': f'cluster{number}', 'load_balancer_id': f'lb{number}',
        'cluster_name': f'name{number}', 'desired_size': 4, 'min_size': 2,
        'distributor': DRIVER, **values})


class ClusterCalls(base.DatabaseTestCase):

    def _make(self):
        """Have two clusters, the first one with members in three slots."""
        for number in (1, 2):
            cluster_repo.add(self.engine, new(number))
        for number, state in enumerate(('ACTIVE', 'ACTIVE', 'FAILED')):
            member = f'member{number}'
            member_repo.add(self.engine, 'cluster1', member, 4)
            member_repo.assign_amphora(self.engine, member, f'amp{number}')
            member_repo.set_state(self.engine, member, ('BUILDING',), state)
        member_repo.add(self.engine, 'cluster1', 'spare', 0)
        member_repo.add(self.engine, 'cluster2', 'other', 4)
        return 'cluster1'

    @_call(cluster_repo.add)
    def add_cluster(self):
        cluster_repo.add(self.engine, new(2))
        return new(),

    @_call(cluster_repo.add)
    def add_second_cluster(self):
        self._make()
        return new(id='another'),

    @_call(cluster_repo.get)
    def get_cluster(self):
        return self._make(),

    @_call(cluster_repo.get_by_load_balancer)
    def get_cluster_of_load_balancer(self):
        self._make()
        return 'lb1',

    @_call(cluster_repo.get_all)
    def get_clusters(self):
        self._make()
        return ()

    @_call(cluster_repo.get_changed)
    def get_changed_clusters(self):
        self._make()
        return LONG,

    @_call(cluster_repo.get_versions)
    def get_versions(self):
        self._make()
        return ()

    @_call(cluster_repo.raise_version)
    def raise_version(self):
        return self._make(), 70

    @_call(cluster_repo.set_status)
    def set_status_of_cluster(self):
        return self._make(), 'ACTIVE', 'DEGRADED'

    @_call(cluster_repo.set_affinity)
    def set_affinity(self):
        return self._make(), 'SOURCE_IP'

    @_call(cluster_repo.delete)
    def delete_cluster(self):
        cluster_id = self._make()
        self._add_vips()
        return cluster_id,

    @_call(figures_repo.read)
    def read_figures_of_clusters(self):
        self._make()
        self._add_vips()
        return ()

    @_call(due_repo.get_due)
    def get_clusters_that_are_due(self):
        self._make()
        return ()

    @_call(due_repo.get_due)
    def get_some_clusters_that_are_due(self):
        self._make()
        return ['cluster1'],

    @_call(due_repo.get_candidates)
    def get_clusters_that_may_be_due(self):
        self._make()
        return LONG,

    @_call(due_repo.get_page)
    def get_page_of_clusters(self):
        self._make()
        return '', 10

    @_call(due_repo.get_orphans)
    def get_load_balancers_without_their_cluster(self):
        lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.change('load_balancer', lb_id,
                            provider='amphora_cluster',
                            provisioning_status='PENDING_CREATE')
        return -LONG,

    # Claims

    @_call(claim_repo.claim)
    def claim_cluster(self):
        return self._make(), 'me', LONG

    @_call(claim_repo.claim)
    def claim_cluster_of_another(self):
        cluster_id = self._make()
        claim_repo.claim(self.engine, cluster_id, 'other', LONG)
        return cluster_id, 'me', LONG

    def _claim(self):
        cluster_id = self._make()
        claim_repo.claim(self.engine, cluster_id, 'me', LONG)
        return cluster_id

    @_call(claim_repo.renew)
    def renew_claim_of_cluster(self):
        return self._claim(), 'me', LONG

    @_call(claim_repo.release)
    def release_cluster(self):
        return self._claim(), 'me'

    # The lock of the load balancer

    def _claim_of(self, status):
        lb = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.change('load_balancer', lb, provisioning_status=status)
        cluster_repo.add(self.engine, new(load_balancer_id=lb))
        claim_repo.claim(self.engine, 'cluster1', 'me', LONG)
        return 'cluster1', 'me', LONG

    @_call(lock_repo.lock)
    def lock_load_balancer_of_cluster(self):
        return self._claim_of('ACTIVE')

    @_call(lock_repo.lock)
    def lock_load_balancer_of_cluster_in_error(self):
        return self._claim_of('ERROR')

    @_call(lock_repo.unlock)
    def unlock_load_balancer_of_cluster(self):
        return self._claim_of('PENDING_UPDATE')

    @_call(lock_repo.fail_deletion)
    def fail_deletion_of_cluster(self):
        return self._claim_of('PENDING_DELETE')

    def _ask(self):
        cluster_id, owner, expiry = self._claim_of('PENDING_UPDATE')
        member_repo.add(self.engine, cluster_id, 'member1', 1)
        member_repo.assign_amphora(self.engine, 'member1', 'amphora1')
        return cluster_id, owner, expiry

    @_call(lock_repo.begin_failover)
    def begin_failover_of_member(self):
        return self._ask()[0], 'amphora1'

    @_call(lock_repo.begin_failover)
    def begin_failover_of_no_member(self):
        return self._ask()[0], 'another'

    @_call(lock_repo.unlock)
    def unlock_load_balancer_that_is_failing_over(self):
        asked = self._ask()
        lock_repo.begin_failover(self.engine, asked[0], 'amphora1')
        return asked

    @_call(lock_repo.fail_failover)
    def fail_failover_of_member(self):
        asked = self._ask()
        lock_repo.begin_failover(self.engine, asked[0], 'amphora1')
        return asked

    @_call(lock_repo.fail)
    def fail_load_balancer_of_cluster(self):
        return self._claim_of('ACTIVE')

    @_call(lock_repo.get_status)
    def get_status_of_load_balancer_of_cluster(self):
        return self._claim_of('ACTIVE')[:1]

    @_call(restore_repo.restore)
    def restore_load_balancer_of_cluster(self):
        cluster_id, owner, expiry = self._claim_of('PENDING_UPDATE')
        cluster_repo.set_status(self.engine, cluster_id, 'ACTIVE')
        lb_id = cluster_repo.get(self.engine, cluster_id).load_balancer_id
        listener = self.records.add_listener(lb_id)
        self.records.change('listener', listener,
                            provisioning_status='PENDING_UPDATE')
        snapshot = snapshot_repo.get(self.engine, lb_id)
        return (cluster_id, owner, expiry, snapshot, 'ACTIVE',
                {each: 'ACTIVE' for each in snapshot.objects})

    @_call(address_repo.get)
    def get_addresses_of_load_balancer(self):
        return self.records.add_load_balancer('ACTIVE_ACTIVE'),

    # Members

    @_call(member_repo.get)
    def get_member(self):
        self._make()
        return 'member1',

    @_call(member_repo.get_by_amphora)
    def get_member_by_amphora(self):
        self._make()
        return 'amp1',

    @_call(member_repo.get_of_cluster)
    def get_members(self):
        return self._make(),

    @_call(member_repo.get_all)
    def get_all_members(self):
        self._make()
        return ()

    @_call(member_repo.add)
    def add_member(self):
        return self._make(), 'new', 4

    @_call(member_repo.add)
    def add_member_where_no_slot_is_free(self):
        return self._make(), 'new', 3

    @_call(member_repo.set_state)
    def set_state_of_member(self):
        self._make()
        return 'member1', ('ACTIVE',), 'DRAINING'

    @_call(member_repo.set_state)
    def set_state_of_member_in_another(self):
        self._make()
        return 'member2', ('ACTIVE',), 'DRAINING'

    @_call(member_repo.record)
    def record_error_of_member(self):
        self._make()
        return 'member2',

    @_call(member_repo.record_config)
    def record_config(self):
        self._make()
        return member_repo.get(self.engine, 'member1'), 'digest'

    @_call(member_repo.join_group)
    def join_group(self):
        self._make()
        member_repo.record(self.engine, 'member1',
                           config_digest=member_repo.ALONE)
        return 'member1', 'digest'

    @_call(member_repo.assign_amphora)
    def assign_amphora(self):
        self._make()
        return 'spare', 'amp9'

    @_call(member_repo.assign_amphora)
    def assign_amphora_of_another(self):
        self._make()
        return 'spare', 'amp1'

    @_call(member_repo.unassign_amphora)
    def unassign_amphora(self):
        self._make()
        return 'member1', 'amp1'

    @_call(member_repo.choose_zone)
    def choose_zone(self):
        cluster_id = self._make()
        return cluster_id, 'spare', lambda members: f'zone{len(members)}'

    @_call(member_repo.set_mac)
    def set_mac(self):
        self._make()
        return 'member1', 'fa:16:3e:00:00:01'

    @_call(member_repo.take_slot)
    def take_slot(self):
        self._make()
        return 'spare', 3

    @_call(member_repo.take_slot)
    def take_slot_of_another(self):
        self._make()
        return 'spare', 1

    @_call(member_repo.take_over_slot)
    def take_over_slot(self):
        self._make()
        return 'spare', 'member1'

    @_call(member_repo.release_slot)
    def release_slot(self):
        self._make()
        return 'member2',

    @_call(member_repo.delete)
    def delete_member(self):
        self._make()
        return 'member2',

    # Distributors

    def _sync(self):
        return distributor_repo.sync(self.engine, DRIVER, DISTRIBUTORS)

    def _add_vips(self):
        """Have the VIPs of both clusters, each on both distributors."""
        one, two = self._sync()
        vips = [vip_repo.add(self.engine, cluster_id, each.id)
                for cluster_id in ('cluster1', 'cluster2')
                for each in (one, two)]
        vip_repo.set_active(self.engine, 'cluster1', one.id)
        return vips

    @_call(distributor_repo.sync)
    def sync_distributors_that_are_there(self):
        self._sync()
        return DRIVER, DISTRIBUTORS

    @_call(distributor_repo.sync)
    def sync_distributors(self):
        """One moves, one stays for its VIPs, one goes."""
        self._make()
        distributor_repo.sync(self.engine, DRIVER, {
            **DISTRIBUTORS, 'network3': 'https://network3:9444'})
        two = distributor_repo.get_all(self.engine)[1]
        vip_repo.add(self.engine, 'cluster1', two.id)
        return DRIVER, {'network1': 'https://192.0.2.1:9444'}

    @_call(distributor_repo.sync)
    def sync_first_distributors(self):
        return DRIVER, DISTRIBUTORS

    @_call(distributor_repo.get)
    def get_distributor(self):
        return self._sync()[0].id,

    @_call(distributor_repo.get_all)
    def get_distributors(self):
        self._sync()
        return ()

    @_call(distributor_repo.get_enabled)
    def get_enabled_distributors(self):
        self._sync()
        return ()

    @_call(distributor_repo.choose)
    def choose_distributors(self):
        self._make()
        self._add_vips()
        return DRIVER, 2

    @_call(distributor_repo.set_status)
    def set_status_of_distributor(self):
        return self._sync()[0].id, 'ONLINE', '1.0'

    @_call(distributor_repo.drain)
    def drain_distributor(self):
        one, two = self._sync()
        distributor_repo.set_status(self.engine, two.id, 'ONLINE')
        return one.id,

    @_call(distributor_repo.drain)
    def drain_last_distributor(self):
        return self._sync()[0].id,

    @_call(distributor_repo.resume)
    def resume_distributor(self):
        one_id, = self.drain_distributor()
        distributor_repo.drain(self.engine, one_id)
        return one_id,

    # Their VIPs

    @_call(vip_repo.get_of_cluster)
    def get_vips_of_cluster(self):
        self._make()
        self._add_vips()
        return 'cluster1',

    @_call(vip_repo.get_of_distributor)
    def get_vips_of_distributor(self):
        self._make()
        return self._add_vips()[0].distributor_id,

    @_call(vip_repo.get_all)
    def get_all_vips(self):
        self._make()
        self._add_vips()
        return ()

    @_call(vip_repo.get_behind)
    def get_vips_that_are_behind(self):
        self._make()
        for vip in self._add_vips():
            vip_repo.set_port(self.engine, vip.id, vip.id, 'fa:1')
        return ()

    @_call(vip_repo.get_behind)
    def get_some_vips_that_are_behind(self):
        self.get_vips_that_are_behind()
        return ['cluster1'],

    @_call(vip_repo.get_of_clusters)
    def get_vips_of_clusters(self):
        self._make()
        self._add_vips()
        return ['cluster1'],

    @_call(vip_repo.get_left)
    def get_vips_that_are_left(self):
        self._make()
        self._add_vips()
        cluster_repo.delete(self.engine, 'cluster1')
        return ()

    @_call(vip_repo.add)
    def add_vip_again(self):
        self._make()
        return 'cluster1', self._add_vips()[0].distributor_id

    @_call(vip_repo.add)
    def add_vip(self):
        self._make()
        return 'cluster1', self._sync()[1].id

    @_call(vip_repo.set_port)
    def set_port_of_vip(self):
        self._make()
        return self._add_vips()[0].id, 'port', 'fa:16:3e:00:00:02'

    @_call(vip_repo.count_active)
    def count_active_vips(self):
        self._make()
        self._add_vips()
        return ()

    @_call(vip_repo.set_active)
    def set_active(self):
        self._make()
        return 'cluster1', self._add_vips()[1].distributor_id

    @_call(vip_repo.set_active)
    def set_active_where_it_is(self):
        self._make()
        return 'cluster1', self._add_vips()[0].distributor_id

    @_call(vip_repo.record_applied)
    def record_applied(self):
        self._make()
        return self._add_vips()[0].id, 7

    def _apply(self):
        self._make()
        vip = self._add_vips()[0]
        vip_repo.record_applied(self.engine, vip.id, 7, True)
        return vip.id, 7

    @_call(vip_repo.forget_applied)
    def forget_what_was_applied(self):
        return self._apply()

    @_call(vip_repo.forget_active)
    def forget_who_is_active(self):
        return self._apply()

    @_call(vip_repo.record_error)
    def record_error_of_vip(self):
        self._make()
        return self._add_vips()[0].id, 'timed out'

    @_call(vip_repo.delete)
    def delete_vip(self):
        self._make()
        return self._add_vips()[0].id,

    def _serve(self):
        """Have members serve, one of them without its row."""
        self._make()
        lb = self.records.add_load_balancer('ACTIVE_ACTIVE')
        for amphora_id in ('amp0', 'amp1'):
            self.records.add_amphora('192.0.2.1', lb, 'IN_CLUSTER',
                                     amphora_id=amphora_id)
        self.records.set_health('amp0', age=LONG)
        return ['amp0', 'amp1', 'other']

    @_call(health_repo.scan)
    def scan_members(self):
        self._serve()
        return 30,

    @_call(health_repo.get_late)
    def get_late_members(self):
        return self._serve(),

    @_call(health_repo.keep_from_failover)
    def keep_from_failover(self):
        return self._serve(),

    @_call(shown_status.lower)
    def lower_shown_status(self):
        self._make()
        self.records.add_load_balancer('ACTIVE_ACTIVE',
                                       load_balancer_id='lb1')
        cluster_repo.set_status(self.engine, 'cluster1',
                                operating_status='DEGRADED')
        return ()

# SPDX-License-Identifier: Apache-2.0

"""Octavia's own flows and tables, on a cloud that is a few dictionaries.

Drivers are fakes with behavior, which may refuse, or die with the process.
"""

import contextlib
import datetime
import functools
import logging as std_logging
import threading
import types

import fixtures
from octavia.common import data_models
from octavia.controller.worker.v2.tasks import compute_tasks
from octavia.controller.worker.v2.tasks import network_tasks
from octavia.network import base as network_base
from octavia.network import data_models as network_models
from oslo_config import fixture as config_fixture
from oslo_db import exception as db_exc
from oslo_log import log as logging
from oslo_utils import uuidutils
import sqlalchemy as sa
from sqlalchemy import orm
from stevedore import driver as stevedore_driver
from taskflow.patterns import linear_flow
from taskflow import task
import tenacity

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.keeping import upkeep
from octavia_hmsync.cluster.members import members
from octavia_hmsync.cluster import work as work_
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync import compat
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import models
from tests.db_cases import base
from tests.unit.db import sqlite

VIP = '198.51.100.1'


class Refused(Exception):
    """What a service says that does not do it."""


class Death(Exception):
    """The process is gone: nothing that it does has any effect."""


# What comes of it where the database was asked.
DEATHS = (Death, db_exc.DBError)


class Cloud:
    """Instances, ports and server groups.

    .steps are all calls, as text; .rules are called with each before it is
    done.
    """

    def __init__(self):
        self.instances = {}
        self.ports = {}
        self.groups = {}
        self.documents = {}
        self.is_dead = False
        # Of the database, before it dies; None for ever.
        self.statements = None
        self.steps = []
        self.rules = []
        # Of server groups.
        self.policies = []
        # The compute zone of each instance by name; those that are lost.
        self.zones = {}
        self.lost = set()
        self._lock = threading.Lock()

    def step(self, text):
        if self.is_dead:
            raise Death(text)
        with self._lock:
            self.steps.append(text)
            rules = list(self.rules)
        for rule in rules:
            rule(text)

    def die_at(self, number):
        """Have the process be gone at a step from now on, from 0."""
        there = len(self.steps)

        def rule(text):
            if len(self.steps) - there > number:
                self.is_dead = True
                raise Death(text)

        self.rules.append(rule)

    def refuse(self, part, times=1):
        """Refuse the next steps whose text has a part."""
        left = [times]

        def rule(text):
            if part in text and left[0]:
                left[0] -= 1
                raise Refused(f'no {text}')

        self.rules.append(rule)

    def find_port(self, name):
        return next((port for port in self.ports.values()
                     if port.name == name), None)


class Compute:
    def __init__(self, cloud):
        self._cloud = cloud

    def build(self, name, availability_zone=None, **_):
        self._cloud.step(f'build {name}')
        # Until 2025.1 it is the name of the compute zone itself.
        zone = (availability_zone.get('compute_zone')
                if isinstance(availability_zone, dict) else availability_zone)
        self._cloud.zones[name] = zone
        if zone in self._cloud.lost:
            raise Refused(f'no valid host in {zone}')
        compute_id = uuidutils.generate_uuid()
        self._cloud.instances[compute_id] = name
        # Whoever dies now has had no answer.
        self._cloud.step(f'built {name}')
        return compute_id

    def delete(self, compute_id):
        self._cloud.step(f'delete instance {compute_id}')
        self._cloud.instances.pop(compute_id, None)

    def get_amphora(self, compute_id, *_):
        self._cloud.step(f'look at {compute_id}')
        return data_models.Amphora(
            compute_id=compute_id, status='ACTIVE',
            lb_network_ip='192.0.2.1', cached_zone=self._cloud.zones.get(
                self._cloud.instances.get(compute_id))), None

    def attach_network_or_port(self, compute_id, port_id=None, **_):
        self._cloud.step(f'attach {port_id}')
        self._cloud.ports[port_id].device_id = compute_id

    def detach_port(self, compute_id, port_id):
        self._cloud.step(f'detach {port_id}')

    def create_server_group(self, name, policy):
        self._cloud.step('create group')
        group_id = uuidutils.generate_uuid()
        self._cloud.groups[group_id] = name
        self._cloud.policies.append(policy)
        return types.SimpleNamespace(id=group_id)

    def delete_server_group(self, group_id):
        self._cloud.step('delete group')
        self._cloud.groups.pop(group_id, None)


class Network:
    sec_grp_enabled = True

    def __init__(self, cloud):
        self._cloud = cloud

    def allocate_vip(self, load_balancer):
        self._cloud.step('allocate VIP')
        vip = load_balancer.vip
        self._cloud.ports.setdefault(vip.port_id, network_models.Port(
            id=vip.port_id, name=f'octavia-lb-{load_balancer.id}'))
        return data_models.Vip(
            load_balancer_id=load_balancer.id, ip_address=vip.ip_address,
            port_id=vip.port_id, subnet_id=vip.subnet_id,
            network_id=vip.network_id), []

    def deallocate_vip(self, vip):
        self._cloud.step('deallocate VIP')
        self._cloud.ports.pop(vip.port_id, None)

    def unplug_vip(self, load_balancer, vip):
        self._cloud.step('unplug VIP')

    def update_vip(self, load_balancer, for_delete=False):
        self._cloud.step('update VIP')

    def update_vip_sg(self, load_balancer, vip):
        self._cloud.step('update group')

    def get_security_group(self, name):
        return types.SimpleNamespace(id='group')

    def get_subnet(self, subnet_id):
        return network_models.Subnet(
            id=subnet_id, cidr='198.51.100.0/24', ip_version=4,
            network_id='network', host_routes=[], gateway_ip=None)

    def get_network(self, network_id):
        return network_models.Network(id=network_id, mtu=1450)

    def get_port(self, port_id):
        self._cloud.step(f'get port {port_id}')
        if port_id not in self._cloud.ports:
            raise network_base.PortNotFound(port_id)
        return self._cloud.ports[port_id]

    def get_port_by_name(self, name):
        port = self._cloud.find_port(name)
        if port is None:
            raise network_base.PortNotFound(name)
        return port

    def apply_qos_on_port(self, qos_id, port_id):
        self._cloud.step(f'apply QoS {qos_id}')
        self.get_port(port_id).qos_policy_id = qos_id

    def update_aap_port_sg(self, load_balancer, amphora, vip):
        self._cloud.step(f'update groups of {amphora.id}')
        self.get_port(amphora.vrrp_port_id).security_group_ids = [
            'group', *vip.sg_ids]

    def create_port(self, network_id, name=None, secondary_ips=(),
                    fixed_ips=(), security_group_ids=(), qos_policy_id=None,
                    **_):
        self._cloud.step(f'create port {name}')
        port = network_models.Port(
            id=uuidutils.generate_uuid(), name=name, network_id=network_id,
            security_group_ids=list(security_group_ids),
            qos_policy_id=qos_policy_id,
            mac_address='fa:16:3e:00:00:01', fixed_ips=[
                network_models.FixedIP(each['subnet_id'], '198.51.100.9')
                for each in fixed_ips])
        port.pairs = list(secondary_ips)
        self._cloud.ports[port.id] = port
        self._cloud.step(f'created port {name}')
        return port

    def delete_port(self, port_id):
        self._cloud.step(f'delete port {port_id}')
        self._cloud.ports.pop(port_id, None)

    def get_plugged_networks(self, compute_id):
        return [network_models.Interface(
            network_id=port.network_id, port_id=port.id,
            fixed_ips=port.fixed_ips)
            for port in self._cloud.ports.values()
            if port.device_id == compute_id]

    def get_network_configs(self, load_balancer, amphora=None):
        subnet = self.get_subnet('subnet')
        port = network_models.Port(id='port', fixed_ips=[])
        return {amphora.id: network_models.AmphoraNetworkConfig(
            amphora=amphora, vip_subnet=subnet, vip_port=port,
            vrrp_subnet=subnet, vrrp_port=port, ha_subnet=subnet,
            ha_port=port, additional_vip_data=[])}


class Amphorae:
    """An amphora driver."""

    def __init__(self, cloud):
        self._cloud = cloud

    def get_info(self, amphora, **_):
        self._cloud.step('info')

    def finalize_amphora(self, amphora):
        pass

    def post_vip_plug(self, amphora, *_, **__):
        self._cloud.step(f'plug {amphora.id}')

    def post_network_plug(self, amphora, *_):
        self._cloud.step(f'plug network {amphora.id}')


class _Subflow(task.Task):
    def __init__(self, cloud, name, engine, **kwargs):
        super().__init__(name=name, **kwargs)
        self._cloud = cloud
        self._engine = engine


class _Distribute(_Subflow):
    def execute(self, distributor_id, amphorae):
        self._cloud.step(f'distributors: {self.name}')
        ids = {amphora['id'] for amphora in amphorae}
        if None in ids:
            raise Refused('an amphora without an id')
        for member in member_repo.get_of_cluster(self._engine,
                                                 distributor_id):
            if member.amphora_id in ids:
                self._change(member)
        self._cloud.documents[distributor_id] = {
            member.slot: member.amphora_id
            for member in member_repo.get_of_cluster(self._engine,
                                                     distributor_id)
            if member.slot is not None and
            member.state in (member_repo.ACTIVE, member_repo.DRAINING)}

    def _change(self, member):
        if self.name == 'register':
            member_repo.set_state(
                self._engine, member.id,
                (member_repo.BUILDING, member_repo.DRAINING,
                 member_repo.STANDBY), member_repo.ACTIVE)
        elif self.name == 'drain':
            member_repo.set_state(self._engine, member.id,
                                  (member_repo.ACTIVE,),
                                  member_repo.DRAINING)
        else:
            member_repo.release_slot(self._engine, member.id)


class _Create(_Subflow):
    default_provides = 'distributor_id'

    def execute(self, load_balancer):
        self._cloud.step('distributors: create')
        return cluster_repo.get_by_load_balancer(
            self._engine, load_balancer['loadbalancer_id']).id


class _VIP(_Subflow):
    def execute(self, distributor_id):
        self._cloud.step(f'distributors: {self.name}')
        if self.name == 'remove':
            self._cloud.documents.pop(distributor_id, None)
        elif self.name == 'add':
            self._cloud.documents[distributor_id] = {}


class Distributors:
    """A distributor driver."""

    def __init__(self, cloud, engine):
        def make(kind, name):
            return linear_flow.Flow(f'{name}-flow').add(
                kind(cloud, name, engine))

        self.get_create_distributor_subflow = functools.partial(
            make, _Create, 'create')
        for function, kind, name in (
                ('delete_distributor', _VIP, 'delete'),
                ('add_vip', _VIP, 'add'), ('remove_vip', _VIP, 'remove'),
                ('register_amphorae', _Distribute, 'register'),
                ('drain_amphorae', _Distribute, 'drain'),
                ('unregister_amphorae', _Distribute, 'unregister')):
            setattr(self, f'get_{function}_subflow',
                    functools.partial(make, kind, name))


class CloudTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):
    """Workers and keepers, one by one; .cloud is what they build."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        engine = sa.create_engine(cls.database.engine.url,
                                  connect_args={'timeout': 60})
        cls.addClassCleanup(engine.dispose)
        # With its engine goes what Octavia's statements were compiled to.
        cls.octavia_session = orm.sessionmaker(engine)

    def setUp(self):
        super().setUp()
        self.cloud = Cloud()
        self.context = None
        # TaskFlow tells of each of its thousand steps.
        std_logging.disable(std_logging.DEBUG)
        self.addCleanup(std_logging.disable, std_logging.NOTSET)
        sa.event.listen(self.engine, 'before_cursor_execute', self._execute)
        self._configure()
        self._try_once()
        self._replace_drivers()
        session = self.octavia_session

        def open_session():
            if self.cloud.is_dead:
                raise Death('database')
            return session

        for name, value in (('get_session', lambda: open_session()()),
                            ('session', open_session)):
            self.useFixture(fixtures.MockPatch(f'octavia.db.api.{name}',
                                               value))
        # Octavia tries again and again, with pauses.
        self.useFixture(fixtures.MockPatch(
            'tenacity.nap.time',
            types.SimpleNamespace(sleep=lambda _seconds: None)))
        # SQLite has one writer.
        self.useFixture(fixtures.MockPatchObject(members, 'AT_ONCE', 1))
        self.useFixture(fixtures.MockPatchObject(members.removal, '_PAUSE',
                                                 0))
        self.reborn()

    def _execute(self, *_):
        if self.cloud.statements is not None:
            self.cloud.statements -= 1
            self.cloud.is_dead |= self.cloud.statements < 0
        if self.cloud.is_dead:
            raise Death('database')

    def _configure(self):
        global_conf = self.useFixture(config_fixture.Config(compat.CONF))
        logging.register_options(compat.CONF)
        groups.register(compat.CONF)
        ca = self.useFixture(fixtures.TempDir()).join('ca.pem')
        with open(ca, 'w') as stream:
            stream.write('ca')
        for group, options in {
                'controller_worker': {
                    'client_ca': ca, 'event_notifications': False,
                    'amp_active_wait_sec': 0, 'amp_boot_network_list': ['m'],
                    'amphora_driver': 'amphora_noop_driver',
                    'distributor_driver': 'hmsync_ovs',
                    'network_driver': 'network_noop_driver',
                    'compute_driver': 'compute_noop_driver'},
                'nova': {'enable_anti_affinity': True},
                'health_manager': {'heartbeat_key': 'key'},
                # Of health managers that no process keeps alive.
                'hmsync': {'offline_after': 3600},
                cluster_conf.GROUP: {'drain_timeout': 0}}.items():
            global_conf.config(group=group, **options)

    def _try_once(self):
        """Have Octavia's tasks try nothing again.

        They take how often from the options of when they were imported.
        """
        for module in (compute_tasks, network_tasks):
            for cls in vars(module).values():
                retry = getattr(getattr(cls, 'execute', None), 'retry', None)
                if retry:
                    self.useFixture(fixtures.MockPatchObject(
                        retry, 'stop', tenacity.stop_after_attempt(1)))

    def _replace_drivers(self):
        compute, network = Compute(self.cloud), Network(self.cloud)
        amphorae = Amphorae(self.cloud)
        drivers = {'octavia.compute.drivers': compute,
                   'octavia.network.drivers': network,
                   'octavia.amphora.drivers': amphorae,
                   'octavia.distributor.drivers': Distributors(
                       self.cloud, self.engine)}

        real = stevedore_driver.DriverManager

        def load(namespace, *args, **kwargs):
            if namespace in drivers:
                return types.SimpleNamespace(driver=drivers[namespace])
            return real(namespace, *args, **kwargs)

        certificates = types.SimpleNamespace(
            generate_cert_key_pair=lambda **_: types.SimpleNamespace(
                certificate=b'certificate', private_key=b'key'))
        flows = 'octavia.controller.worker.v2.tasks'
        for target, value in (
                ('stevedore.driver.DriverManager', load),
                ('octavia.common.utils.get_network_driver', lambda: network),
                ('octavia.common.utils.get_amphora_driver',
                 lambda: amphorae),
                (f'{flows}.cert_task.BaseCertTask.__init__',
                 _make_init(certificates)),
                (f'{flows}.database_tasks.cert_parser.get_cert_expiration',
                 lambda _pem: datetime.datetime(2050, 1, 1)),
                ('octavia_hmsync.cluster.members.update.configure',
                 self._configure_member),
                ('octavia_hmsync.compute.connect', self._list)):
            self.useFixture(fixtures.MockPatch(target, value))

    def _configure_member(self, work, load_balancer, amphora, slot):
        self.cloud.step(f'configure {amphora.id} for {slot}')
        member = member_repo.get_by_amphora(self.engine, amphora.id)
        member_repo.record(self.engine, member.id, error=None,
                           config_digest='digest')

    def _list(self, _conf):
        def list_instances(amphora_id=None):
            return [types.SimpleNamespace(id=key, name=name)
                    for key, name in self.cloud.instances.items()
                    if name == f'amphora-{amphora_id}']
        return types.SimpleNamespace(list_instances=list_instances)

    # Who works

    def reborn(self):
        """Have another process go on, with what the database has."""
        self.cloud.is_dead = False
        self.cloud.statements = None
        self.cloud.rules.clear()
        if self.context:
            self.context.claims.end()
        self.context = work_.Context(compat.CONF, self.engine)
        self.useFixture(fixtures.MockPatchObject(
            work_, 'get_context', lambda: self.context))

    def add_load_balancer(self, status='PENDING_CREATE'):
        load_balancer_id = self.records.add_load_balancer()
        self.records.change('load_balancer', load_balancer_id,
                            provisioning_status=status,
                            provider='amphora_cluster')
        return load_balancer_id

    def create(self, size=2, min_size=1):
        load_balancer_id = self.add_load_balancer()
        with contextlib.suppress(*DEATHS):
            worker.Worker(compat.CONF).create(load_balancer_id, {
                'cluster_desired_size': size, 'cluster_min_size': min_size})
        return load_balancer_id

    def delete(self, load_balancer_id):
        self.records.change('load_balancer', load_balancer_id,
                            provisioning_status='PENDING_DELETE')
        with contextlib.suppress(*DEATHS):
            worker.Worker(compat.CONF).delete(load_balancer_id)

    def lapse(self):
        """Have all claims lapse, as those of who died."""
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Cluster.__table__).values(
                claim_expires_at=sa.func.datetime('now', '-1 hours')))

    def let_time_pass(self):
        """Have a round take some time where the clock is stopped."""

    def keep(self, rounds=9):
        """Have a keeper do what is due, until there is nothing."""
        with contextlib.suppress(*DEATHS):
            self._keep(rounds)

    def _keep(self, rounds):
        for _ in range(rounds):
            self.let_time_pass()
            # Nobody has just been asked for something.
            with self.engine.begin() as connection:
                connection.execute(
                    sa.update(compat.LOAD_BALANCER).values(
                        updated_at=sa.func.datetime('now', '-1 hours')))
            due = [each for each in due_repo.get_due(self.engine)
                   if each.is_free]
            if not due:
                return
            for each in due:
                upkeep.Upkeep(self.context, each.id).run()

    # What there is

    def get_status(self, load_balancer_id):
        return next((row['provisioning_status']
                     for row in self.records.rows('load_balancer')
                     if row['id'] == load_balancer_id), None)

    def get_cluster(self, load_balancer_id):
        return cluster_repo.get_by_load_balancer(self.engine,
                                                 load_balancer_id)

    def get_members(self, load_balancer_id):
        cluster = self.get_cluster(load_balancer_id)
        return (member_repo.get_of_cluster(self.engine, cluster.id)
                if cluster else [])

    def assertWhole(self, load_balancer_id, size):
        """Check that it is ACTIVE, and that there is nothing else."""
        self.assertEqual('ACTIVE', self.get_status(load_balancer_id))
        there = self.get_members(load_balancer_id)
        cluster = self.get_cluster(load_balancer_id)
        self.assertEqual([(slot, 'ACTIVE') for slot in range(size)],
                         [(member.slot, member.state) for member in there])
        self.assertEqual(('ACTIVE', None), (cluster.provisioning_status,
                                            cluster.claimed_by))
        self.assertEqual({member.slot: member.amphora_id
                          for member in there},
                         self.cloud.documents[cluster.id])
        self.assertEqual(
            sorted(f'amphora-{member.amphora_id}' for member in there),
            sorted(self.cloud.instances.values()))
        self.assertEqual(size + 1, len(self.cloud.ports))
        self.assertEqual(1, len(self.cloud.groups))
        rows = {row['id']: row for row in self.records.rows('amphora')
                if row['status'] != 'DELETED'}
        self.assertEqual({member.amphora_id for member in there}, set(rows))
        for row in rows.values():
            self.assertEqual(
                ('ALLOCATED', 'IN_CLUSTER', load_balancer_id),
                (row['status'], row['role'], row['load_balancer_id']))
        self.assertTrue(all(
            row['busy'] for row in self.records.rows('amphora_health')))

    def assertTakenBack(self, load_balancer_id):
        """Check that nothing was left but its row in ERROR, and its VIP."""
        self.assertEqual('ERROR', self.get_status(load_balancer_id))
        self.assertEqual([], self.get_members(load_balancer_id))
        self.assertEqual({}, self.cloud.instances)
        self.assertEqual({}, self.cloud.groups)
        self.assertEqual({}, self.cloud.documents)
        self.assertLessEqual(len(self.cloud.ports), 1)
        self.assertIsNone(self.get_cluster(load_balancer_id).claimed_by)

    def assertGone(self, load_balancer_id):
        self.assertEqual('DELETED', self.get_status(load_balancer_id))
        self.assertIsNone(self.get_cluster(load_balancer_id))
        for there in (self.cloud.instances, self.cloud.groups,
                      self.cloud.documents, self.cloud.ports):
            self.assertEqual({}, there)
        self.assertEqual([], self.get_members(load_balancer_id))


def _make_init(generator):
    def init(self, **kwargs):
        task.Task.__init__(self, **kwargs)
        self.cert_generator = generator
    return init

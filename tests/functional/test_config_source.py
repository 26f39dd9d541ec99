# SPDX-License-Identifier: Apache-2.0

"""The live list in the services that render an agent configuration."""

import datetime
import functools
import os
import re
import sys
import time

import fixtures

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import mariadb
from tests.cloud import octavia_conf
from tests.cloud import rabbitmq
from tests.cloud import records
from tests.functional import base

# Where this clone and its environment lie, each of which may have any name.
_PLACES = [os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), sys.prefix]

# Octavia's no-op compute driver logs the config drive of what it builds.
_LIST = re.compile(r'controller_ip_port_list = (.*?)(?:\\n|\n)')


def config_drive_lists(process):
    """The lists in the config drives that a process made, oldest first."""
    return [line for chunk in process.log().splitlines()
            if 'no-op, build name' in chunk
            for line in _LIST.findall(chunk)]


def without_places(text, places=_PLACES):
    """Leave out of a log where the clone and its environment lie.

    Octavia logs its command line; 'octavia-hmsync' is a clone's natural name.
    """
    both = {path for place in places
            for path in (place, os.path.realpath(place))}
    for path in sorted(both, key=len, reverse=True):
        text = text.replace(path, '')
    return text


class TestWorker(base.FunctionalTestCase):
    """A real octavia-worker behind a real RabbitMQ."""

    def publish(self, number, addresses):
        self.assertTrue(generation_repo.publish(
            self.engine, number, dict(zip(addresses, range(9))), 'test',
            'test'))

    def wait_for_list(self, worker, addresses):
        rabbitmq.wait_until_logged(
            worker, f'controller_ip_port_list is now {", ".join(addresses)}')

    def test_a_worker_that_runs_holds_the_newest_list(self):
        cloud = self.make_cloud(amphorae=1)
        broker = self.useFixture(rabbitmq.RabbitMQServer(cloud.directory))
        broker.wait_until_ready()
        client = rabbitmq.RpcClient(broker.url)
        self.addCleanup(client.close)
        options = {'DEFAULT': {'transport_url': broker.url, 'debug': True}}
        amphora_id, agent = next(iter(cloud.amphorae.items()))

        # 'amphora configure' from a worker that was there before the change.
        old, new = [f'{cloud.address(n)}:5555' for n in (21, 22)]
        self.publish(1, [old])
        worker = cloud.add_worker(options=options)
        cloud.wait_until_ready()
        self.wait_for_list(worker, [old])
        self.publish(2, [new])
        self.wait_for_list(worker, [new])
        client.cast('update_amphora_agent_config', amphora_id=amphora_id)
        self.wait_for(lambda: agent.configured_list() == [new],
                      'new list in the agent')

        # And where it builds while a zone is drained.
        drain_repo.begin(self.engine, 'az1', records.utcnow() +
                         datetime.timedelta(hours=1), False, 'az2')
        for zone in ('az2', 'as in octavia.conf'):
            rabbitmq.wait_until_logged(
                worker, f'[nova] availability_zone is now {zone}.')
            drain_repo.end(self.engine, 'az1')
        worker.stop()

        # The config drive of a new amphora.
        worker.options['controller_worker']['amphora_driver'] = (
            'amphora_noop_driver')
        worker.start()
        worker.wait_until_ready()
        self.wait_for_list(worker, [new])
        self.publish(3, [old, new])
        self.wait_for_list(worker, [old, new])
        client.cast('failover_amphora', amphora_id=amphora_id)
        self.wait_for(lambda: config_drive_lists(worker), 'config drive')
        self.assertEqual([f'{old}, {new}'], config_drive_lists(worker))


class TestHealthCheck(base.FunctionalTestCase):
    """The second child of the health manager builds amphorae, too."""

    def test_failover_builds_with_the_newest_list(self):
        cloud = self.make_cloud()
        load_balancer_id = cloud.records.add_load_balancer()
        amphora_id = cloud.records.add_amphora(
            cloud.address(200), load_balancer_id)
        cloud.records.set_health(amphora_id, age=0)
        # A housekeeper that has reached nobody tells nothing of the one that
        # it cannot reach, so that only this ends its hold.
        manager = cloud.add_health_manager(
            cloud.address(1), options={'DEFAULT': {'debug': True},
                                       'hmsync': {'failover_hold_max': 25}})
        other = f'{cloud.address(2)}:5555'
        hm_repo.register(self.engine, 'other', cloud.address(2), 5555,
                         'instance', 300)
        cloud.add_housekeeping(options={
            'hmsync': {'offline_after': 300, 'removal_delay': 300}})
        cloud.wait_until_ready()
        self.wait_until_published([manager.address, other])
        # Really dead, and failed over once the health manager has started.
        self.wait_for(lambda: config_drive_lists(manager),
                      'config drive of the new amphora')
        self.assertEqual([f'{manager.address}, {other}'],
                         config_drive_lists(manager)[:1])


class TestDisturbances(base.FunctionalTestCase):
    """What must not disturb Octavia, and what must not stop the plugin."""

    make_database = database.MariaDBDatabase

    def test_command_line_tools(self):
        """They parse the same octavia.conf, and start nothing."""
        cloud = self.make_cloud(upgrade=False)
        unreachable = {'database': {
            'connection': 'mysql+pymysql://u:secret@127.0.0.1:1/octavia'}}
        for options in (None, unreachable):
            result = cloud.command(
                'oslo-config-generator', '--namespace', 'octavia',
                options=options)
            self.assertEqual(0, result.returncode, result.stderr)
            self.assertIn('controller_ip_port_list', result.stdout)
        result = cloud.command('octavia-db-manage', 'current')
        self.assertEqual(0, result.returncode, result.stderr)
        result = cloud.command('octavia-db-manage', 'upgrade', 'head')
        self.assertEqual(0, result.returncode, result.stderr)
        result = cloud.command('octavia-status', 'upgrade', 'check')
        # That of Octavia 16 raises NoSuchOptError, with us and without.
        self.assertRegex(result.stdout, 'Upgrade Check Results|oslo_policy')
        off = cloud.command('octavia-status', 'upgrade', 'check', options={
            'DEFAULT': {'config_source': None}})
        self.assertEqual((off.returncode, off.stdout),
                         (result.returncode, result.stdout))
        for tool in ('octavia-db-manage', 'octavia-status'):
            self.assertNotIn('hmsync is off', result.stderr, tool)

    def test_tables_come_late(self):
        """Started before 'db upgrade': works from then on, by itself."""
        cloud = self.make_cloud(upgrade=False)
        manager = cloud.add_health_manager(cloud.address(1))
        keeper = cloud.add_housekeeping()
        cloud.wait_until_ready()
        # Said once by each process, not by each thread at each interval.
        # (Who looks in the middle of the upgrade says that, too.)
        text = 'The tables of octavia-hmsync are not in the database yet'
        expected = [(keeper, 1), (manager, 2)]
        for process, count in expected:
            self.wait_for(lambda: process.log().count(text) >= count,
                          f'"{text}" by each process of {process.name}')
            self.assertIn('run "octavia-hmsync db upgrade"', process.log())
        cloud.upgrade_hmsync()
        self.wait_until_published([manager.address])
        for process, count in expected:
            self.assertEqual(count, process.log().count(text))

    def test_database_comes_late_and_goes(self):
        """Down at the start, down in between: the services run on."""
        server = self.own_server()
        cloud = self.cloud
        cloud.upgrade_hmsync()
        server.stop()
        manager = cloud.add_health_manager(cloud.address(1))
        keeper = cloud.add_housekeeping()
        cloud.wait_until_ready()
        for process in (manager, keeper):
            rabbitmq.wait_until_logged(process, 'The database cannot be used')
        server.start()
        server.wait_until_ready()
        self.wait_until_published([manager.address])

        server.stop()
        since = len(manager.log())
        rabbitmq.wait_until_logged(manager, 'The database cannot be used',
                                   since)
        time.sleep(6)  # Longer than offline_after and removal_delay.
        server.start()
        server.wait_until_ready()
        rabbitmq.wait_until_logged(manager, 'octavia-hmsync works again',
                                   since)
        other = cloud.add_health_manager(cloud.address(2))
        self.wait_until_published([manager.address, other.address])
        # Nobody was declared dead in between.
        self.assertEqual(2, self.newest().number)
        self.assertNotIn('Traceback', '\n'.join(
            line for process in (manager, keeper)
            for line in process.log().splitlines() if 'hmsync' in line))

    def own_server(self):
        directory = self.useFixture(fixtures.TempDir()).path
        server = self.useFixture(mariadb.MariaDBServer(directory))
        self.make_database = functools.partial(database.MariaDBDatabase,
                                               server=server)
        self.make_cloud(upgrade=False)
        return server


class TestWithoutPlugin(base.FunctionalTestCase):
    """Switched off again by removing the lines: nothing is left behind."""

    hmsync = False

    def test_switched_off(self):
        cloud = self.make_cloud(upgrade=False)
        manager = cloud.add_health_manager(cloud.address(1))
        self.assertIsInstance(manager, controllers.HealthManager)
        # One that has it, to see when it would have been said.
        other = cloud.add_health_manager(cloud.address(2),
                                         options=octavia_conf.HMSYNC)
        cloud.wait_until_ready()
        text = 'The tables of octavia-hmsync are not in the database yet'
        self.wait_for(lambda: other.log().count(text) > 1,
                      f'"{text}" by both processes of {other.name}')
        self.assertNotIn('hmsync', without_places(manager.log()))

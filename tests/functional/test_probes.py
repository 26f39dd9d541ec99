# SPDX-License-Identifier: Apache-2.0

"""What real services answer to the probes of Kubernetes."""

import functools
import http.client
import os
import signal

import fixtures
import psutil

from octavia_hmsync.sync.rules import member
from tests.cloud import database
from tests.cloud import mariadb
from tests.cloud import waiting
from tests.functional import base

PORT = 9180
OPTIONS = {'hmsync': {'keepalive_interval': 1, 'offline_after': 4,
                      'poll_interval': 1}}
ALIVE = (200, 'ok\n')


def ask(address, path, method='GET'):
    """Status and body of the answer, or None without one."""
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return None
    finally:
        connection.close()


class TestProbes(base.FunctionalTestCase):

    def add_health_manager(self, number, **hmsync):
        address = f'{self.cloud.address(number + 100)}:{PORT}'
        manager = self.cloud.add_health_manager(
            self.cloud.address(number), options={
                'hmsync': {'health_manager_metrics_address': address,
                           **hmsync}})
        manager.probes = address
        return manager

    def add_housekeeping(self, **hmsync):
        address = f'{self.cloud.address(150)}:{PORT}'
        keeper = self.cloud.add_housekeeping(options={
            'hmsync': {'house_keeping_metrics_address': address, **hmsync}})
        keeper.probes = address
        return keeper

    def wait_until(self, service, path, status, words='',
                   timeout=waiting.LIMIT):
        """Wait for an answer with this status, and these words in it."""
        answers = []

        def is_so():
            answers[:] = [ask(service.probes, path)]
            return answers[0] is not None and (
                answers[0][0] == status and words in answers[0][1])

        self.wait_for(is_so, lambda: f'{status} "{words}" of {service.name} '
                      f'at {path}: {answers}', timeout)

    def wait_until_ready(self, *services):
        for service in services:
            self.wait_until(service, '/readyz', *ALIVE)

    def assert_alive(self, *services):
        for service in services:
            self.assertEqual(ALIVE, ask(service.probes, '/healthz'))
            self.assertEqual((200, ''), ask(service.probes, '/healthz',
                                            'HEAD'))

    def kill_child(self, manager, has_socket):
        """Kill the listener, or the health check."""
        child, = [c for c in psutil.Process(manager.pid).children()
                  if has_socket == any(
                      s.laddr and s.laddr.port == manager.bind_port
                      for s in c.net_connections('udp'))]
        os.kill(child.pid, signal.SIGKILL)

    def test_database_down(self):
        """Nobody is restarted for what would restart all of them."""
        server = self.useFixture(mariadb.MariaDBServer(
            self.useFixture(fixtures.TempDir()).path))
        self.make_database = functools.partial(database.MariaDBDatabase,
                                               server=server)
        self.make_cloud(options=OPTIONS)
        managers = [self.add_health_manager(n) for n in (1, 2)]
        keeper = self.add_housekeeping()
        self.wait_until_ready(keeper, *managers)
        self.assert_alive(keeper, *managers)

        server.stop()
        for manager in managers:
            self.wait_until(manager, '/readyz', 503,
                            'It has written no keepalive for ')
        self.wait_until(keeper, '/readyz', 503,
                        'The thread "planner" has not done its work for ')
        self.assert_alive(keeper, *managers)
        server.start()
        server.wait_until_ready()
        self.wait_until_ready(keeper, *managers)
        for service in (keeper, *managers):
            self.assertNotIn('Traceback', service.log())

    def drain(self, verb, manager):
        done = self.cloud.command('octavia-hmsync', 'health', 'manager', verb,
                                  manager.host)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_drained_and_deaf(self):
        self.make_cloud(options={
            'hmsync': {**OPTIONS['hmsync'], 'offline_after': 60}})
        manager, other = (self.add_health_manager(n) for n in (1, 2))
        self.wait_until_ready(manager, other)
        self.drain('drain', manager)
        self.wait_until(manager, '/readyz', 503, 'It is DRAINING')
        self.assert_alive(manager)
        self.drain('resume', manager)
        self.wait_until_ready(manager)

        # The main process of both lives on.
        self.kill_child(manager, has_socket=True)
        self.kill_child(other, has_socket=False)
        for path in ('/healthz', '/readyz'):
            self.wait_until(manager, path, 503,
                            'The process that receives heartbeats has ended')
            self.wait_until(other, path, 503,
                            'The process that fails over amphorae has ended')
        self.assertEqual((404, 'Here are /metrics, /healthz and /readyz.\n'),
                         ask(manager.probes, '/'))

    def test_plugin_that_cannot_start(self):
        """Octavia runs on, and nobody may restart it for that."""
        self.make_cloud()
        services = [self.add_health_manager(1, keepalive_interval='often'),
                    self.add_housekeeping(offline_after='seldom')]
        for service in services:
            self.wait_until(service, '/readyz', 503,
                            'octavia-hmsync is off in this process')
            self.assert_alive(service)
            # Prometheus takes it for down, as it was without the probes.
            self.assertEqual(503, ask(service.probes, '/metrics')[0])
        self.assertEqual({}, self.members())

        # What has no listener does not live, with the plugin or without.
        good = self.add_health_manager(2)
        self.wait_until_ready(good)
        deaf = self.cloud.add_health_manager(
            good.bind_ip, host='deaf', options={'hmsync': {
                'health_manager_metrics_address':
                    f'{self.cloud.address(103)}:{PORT}'}})
        deaf.probes = f'{self.cloud.address(103)}:{PORT}'
        self.wait_until(deaf, '/healthz', 503,
                        'The process that receives heartbeats has ended')
        self.assertEqual(member.ONLINE, self.members()[good.host].status)

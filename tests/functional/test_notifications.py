# SPDX-License-Identifier: Apache-2.0

"""Notifications, as a consumer gets them from RabbitMQ."""

import collections
import datetime
import json
import threading

import fixtures
from oslo_config import cfg
import oslo_messaging
from oslo_utils import timeutils

from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import member as mem
from tests.cloud import ailing
from tests.cloud import database
from tests.cloud import rabbitmq
from tests.functional import base

PREFIX = 'octavia_hmsync.'


class Consumer:
    """Listens as any other service would.

    :param url: a transport_url.
    """

    def __init__(self, url):
        self.received = []
        self._lock = threading.Lock()
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[], default_config_dirs=[])
        self._listener = oslo_messaging.get_notification_listener(
            oslo_messaging.get_notification_transport(conf, url),
            [oslo_messaging.Target(exchange='octavia',
                                   topic='notifications')],
            [self], executor='threading')
        self._listener.start()

    def _take(self, context, publisher_id, event_type, payload, metadata):
        with self._lock:
            self.received.append((event_type, publisher_id, payload))

    info = warn = error = _take

    def close(self):
        self._listener.stop()
        self._listener.wait()

    def find(self, event, **values):
        """Payloads of an event that have these values."""
        with self._lock:
            return [payload for event_type, _publisher, payload in
                    self.received if event_type == PREFIX + event and
                    values.items() <= payload.items()]


class NotificationsCase(base.FunctionalTestCase):
    """Two health managers, two housekeepers."""

    make_database = database.MariaDBDatabase

    def setUp(self):
        super().setUp()
        self.rabbit = self.useFixture(rabbitmq.RabbitMQServer(
            self.useFixture(fixtures.TempDir()).path))
        cloud = self.make_cloud(options={
            'oslo_messaging_notifications': {
                'driver': 'messagingv2', 'transport_url': self.rabbit.url},
            'health_manager': {'stats_update_threads': 2},
            # Nothing is done twice, not even on a busy machine.
            'hmsync': {'retry_interval': 300, 'upload_timeout': 30}})
        # What is told before would be lost.
        self.rabbit.wait_until_ready()
        self.amphora = cloud.add_ailing_amphora(ailing.HEALTHY)
        self.managers = [cloud.add_health_manager(cloud.address(n))
                         for n in (1, 2)]
        self.keepers = [cloud.add_housekeeping(host=f'hk{n}')
                        for n in (1, 2)]
        self.consumer = Consumer(self.rabbit.url)
        self.addCleanup(self.consumer.close)

    def wait_for_event(self, event, **values):
        return self.wait_for(
            lambda: self.consumer.find(event, **values),
            lambda: f'{event} with {values}: {self.consumer.received}')[0]

    def wait_for_list(self, *managers):
        """Wait until this list is published and completed."""
        addresses = [m.address for m in managers]
        number = self.wait_for_event(
            'generation.published',
            controller_ip_port_list=addresses)['number']
        self.wait_for_event('generation.completed', number=number)

    def assert_each_once(self):
        seen = collections.Counter(
            json.dumps([event_type, payload], sort_keys=True)
            for event_type, _publisher, payload in self.consumer.received)
        self.assertEqual({1}, set(seen.values()), seen)


class TestNotifications(NotificationsCase):

    def test_life(self):
        one, two = self.managers
        for manager in self.managers:
            self.wait_for_event('health_manager.up', host=manager.host,
                                address=manager.address)
        self.wait_for_list(one, two)

        self._fail_and_recover()
        self._drain(one, two)
        self._upgrade_images()
        self._without_rabbitmq(one, two)
        self.assert_each_once()
        self.assertNotIn(self.cloud.heartbeat_key,
                         str(self.consumer.received))
        self.assertLessEqual(
            {publisher for _event, publisher, _payload in
             self.consumer.received},
            {f'octavia-hmsync.{host}' for host in
             ('hk1', 'hk2', 'hm1', 'hm2')})

    def _fail_and_recover(self):
        """An amphora that nobody has ever reached, nor heard."""
        amphora = self.cloud.add_ailing_amphora(ailing.RESETS)
        old = self.cloud.add_ailing_amphora(ailing.NOT_FOUND)
        self.cloud.records.set_health(amphora.amphora_id, age=5)
        told = self.wait_for_event('amphora.unreachable',
                                   amphora_id=amphora.amphora_id)
        self.assertEqual('1.0', told['version'])
        self.assertIn(amphora.lb_network_ip, told['error'])
        self.wait_for_event('failover_guard.holding',
                            amphora_ids=[amphora.amphora_id])
        amphora.ailment = ailing.HEALTHY
        claim_repo.retry_now(self.engine)
        self.wait_for_event('amphora.recovered',
                            amphora_id=amphora.amphora_id)
        # It sends none, and would soon be held once more.
        self.cloud.records.set_health(amphora.amphora_id, age=-60)
        self.wait_for_event('failover_guard.released',
                            amphora_ids=[amphora.amphora_id])
        self.wait_for_event('amphora.unsupported', amphora_id=old.amphora_id)
        for gone in (amphora, old):
            self.cloud.records.set_status(gone.amphora_id, 'DELETED')

    def _drain(self, one, two):
        hm_repo.change_status(self.engine, two.host, mem.ONLINE,
                              mem.DRAINING)
        self.wait_for_event('health_manager.draining', host=two.host)
        self.wait_for_list(one)

    def _upgrade_images(self):
        """An operator's commands leave it to housekeeping to tell."""
        later = (timeutils.utcnow() + datetime.timedelta(3)).strftime('%a')
        rollout_repo.add(self.engine, 'rollout', rollout_repo.Settings(
            'replace', 1, 1, 0, 0, 1, f'{later} 12:00-13:00'), 'CVE')
        told = self.wait_for_event('image_rollout.started')
        self.assertEqual(('rollout', 'CVE'),
                         (told['rollout_id'], told['reason']))
        for verb, event in (('pause', 'paused'), ('resume', 'resumed'),
                            ('cancel', 'cancelled')):
            done = self.cloud.command('octavia-hmsync', 'image', 'rollout',
                                      verb, '--reason', verb)
            self.assertEqual((0, ''), (done.returncode, done.stderr))
            told = self.wait_for_event(f'image_rollout.{event}')
            self.assertEqual((verb, 0), (told['reason'], told['done']))
        # One whose load balancer is gone when its turn comes.
        replace_repo.add(self.engine, replace_repo.New(
            'replacement', 'gone', 'replace', 'image'))
        self.wait_for_event('image_replacement.started',
                            load_balancer_id='gone', rollout_id=None)
        told = self.wait_for_event('image_replacement.skipped',
                                   replacement_id='replacement')
        self.assertEqual('it was deleted', told['reason'])

    def _without_rabbitmq(self, one, two):
        """All else goes on; what cannot be sent is told once, in the log."""
        self.rabbit.stop()
        hm_repo.change_status(self.engine, two.host, mem.DRAINING,
                              mem.ONLINE)
        self.wait_until_published([one.address, two.address])
        self.wait_until_applied({self.amphora.amphora_id})
        self.wait_for(lambda: self._count('Notifications cannot be sent'),
                      'warning')
        self.rabbit.start()
        self.rabbit.wait_until_ready()
        self._roll_back(two)
        # One that has lost some says so when it sends the next.
        for keeper in self.keepers:
            if 'cannot be sent' not in keeper.log():
                keeper.stop()
        two.stop()
        self.wait_for_event('health_manager.down', host=two.host,
                            previous_status='ONLINE')
        self.wait_for(lambda: self._count('Notifications are sent again'),
                      'end of it')
        for keeper in self.keepers:
            for text in ('cannot be sent', 'are sent again'):
                self.assertLessEqual(keeper.log().count(text), 1)
            self.assertNotIn('Traceback', keeper.log())

    def _roll_back(self, two):
        """By an operator, whose command sends it itself."""
        done = self.cloud.command('octavia-hmsync', 'generation', 'rollback',
                                  options={'DEFAULT': {'host': 'hk1'}})
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        told = self.wait_for_event('generation.rolled_back',
                                   suspect_ip_port_list=[two.address])
        self.wait_for_event('generation.published',
                            number=told['replaced_by'])

    def _count(self, text):
        return sum(keeper.log().count(text) for keeper in self.keepers)

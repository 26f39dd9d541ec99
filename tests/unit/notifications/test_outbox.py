# SPDX-License-Identifier: Apache-2.0

"""Sending, with message brokers that are down, hang, or do not exist."""

import json
import logging
import socket
import threading

import fixtures
from oslo_config import cfg
from oslo_messaging.notify import _impl_test

from octavia_hmsync import exceptions
from octavia_hmsync.notifications import broker
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync import payloads
from tests.cloud import waiting
from tests.unit import base


def make(number):
    return payloads.AmphoraRecovered(f'amphora-{number}', None, number)


class Broker:
    """One of all messages; .error and .gate as a test wants them."""

    def __init__(self):
        self.opened = self.closed = 0
        self.tried = []
        self.delivered = []
        self.error = None
        self.gate = threading.Event()
        self.gate.set()

    def open(self, conf):
        self.opened += 1
        return self

    def deliver(self, payload):
        self.tried.append(payload)
        self.gate.wait(60)
        if self.error:
            raise self.error
        self.delivered.append(payload)

    def close(self):
        self.closed += 1


class SenderTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(
            level=logging.INFO, format='%(levelname)s %(message)s'))
        self.conf = self.make_conf(DEFAULT={'host': 'controller1'})

    def set_driver(self, *drivers, **options):
        broker.has_driver(self.conf)
        self.conf.set_override('driver', drivers,
                               'oslo_messaging_notifications')
        for name, value in options.items():
            self.conf.set_override(name, value,
                                   'oslo_messaging_notifications')

    def wait_for(self, condition, what):
        waiting.wait_for(condition, what, interval=0.01)

    def lines(self, level):
        return [line for line in self.log.output.splitlines()
                if line.startswith(level)]


class TestSender(SenderTestCase):

    def setUp(self):
        super().setUp()
        self.set_driver('messagingv2')
        self.broker = Broker()
        self.sender = outbox.Outbox(self.conf, self.broker.open)
        self.addCleanup(self.sender.close, 0)
        self.addCleanup(self.broker.gate.set)

    def send(self, *numbers):
        for number in numbers:
            self.sender.send(make(number))

    def wait_until_tried(self, count):
        self.wait_for(lambda: len(self.broker.tried) >= count,
                      f'attempt {count}')

    def delivered(self):
        return [p.generation for p in self.broker.delivered]

    def test_in_order(self):
        self.send(*range(50))
        self.assertEqual(0, self.sender.close(60))
        self.assertEqual(list(range(50)), self.delivered())
        self.wait_for(lambda: self.broker.closed, 'closed connection')
        self.assertEqual(1, self.broker.opened)
        self.assertEqual([], self.lines('WARNING'))

    def test_an_idle_connection_is_closed(self):
        self.patch(outbox, '_IDLE', 0.01)
        self.send(1)
        self.wait_for(lambda: self.broker.closed == 1, 'closed connection')
        self.send(2)
        self.wait_for(lambda: self.broker.closed == 2, 'closed connection')
        self.assertEqual([1, 2], self.delivered())

    def test_down(self):
        """One line when it begins, one when it ends, and no connection."""
        self.broker.error = exceptions.NotificationsUnavailable('it is down')
        for number in range(3):
            self.send(number)
            self.wait_until_tried(number + 1)
        self.wait_for(lambda: self.broker.closed == 3, 'closed connection')
        warning, = self.lines('WARNING')
        self.assertIn('cannot be sent and are dropped: it is down', warning)
        self.broker.error = None
        self.send(3)
        self.wait_for(lambda: self.lines('INFO'), 'line')
        self.assertEqual(
            ['INFO Notifications are sent again; 3 were lost.'],
            self.lines('INFO'))
        self.assertEqual([3], self.delivered())
        self.assertEqual(3, self.sender.close(60))

    def test_down_again(self):
        """Those that were lost before do not count any more."""
        for number in (0, 2):
            self.broker.error = ZeroDivisionError()
            self.send(number)
            self.wait_until_tried(number + 1)
            self.wait_for(lambda n=number: self.broker.closed == n / 2 + 1,
                          'closed connection')
            self.broker.error = None
            self.send(number + 1)
            self.wait_for(lambda n=number: len(self.lines('INFO')) ==
                          n / 2 + 1, 'line')
        self.assertEqual(2, len(self.lines('WARNING')))
        self.assertEqual(
            2 * ['INFO Notifications are sent again; 1 were lost.'],
            self.lines('INFO'))

    def test_hangs(self):
        """Whoever has something to tell goes on; the queue has an end."""
        self.patch(outbox, 'LIMIT', 20)
        self.broker.gate.clear()
        self.send(0)
        self.wait_until_tried(1)
        self.send(*range(1, 1000))
        self.assertEqual(20, len(self.sender._waiting))
        warning, = self.lines('WARNING')
        self.assertIn('20 are waiting already', warning)
        self.broker.gate.set()
        self.wait_for(lambda: self.lines('INFO'), 'line')
        self.assertEqual(
            ['INFO Notifications are sent again; 979 were lost.'],
            self.lines('INFO'))
        self.assertEqual(list(range(21)), self.delivered())

    def test_hangs_when_the_service_stops(self):
        self.broker.gate.clear()
        self.send(*range(5))
        self.wait_until_tried(1)
        self.assertEqual(5, self.sender.close(0.01))
        self.assertIn('5 notifications were not sent', self.log.output)
        # That is the end of it, whoever has still something to tell.
        self.send(5)
        self.broker.gate.set()
        self.wait_for(lambda: self.broker.closed, 'closed connection')
        self.assertEqual([0], self.delivered())

    def test_text_of_an_unknown_error(self):
        self.broker.error = ValueError('rabbit://octavia:S3cret@192.0.2.1/')
        self.send(1)
        self.wait_for(lambda: self.lines('WARNING'), 'line')
        self.assertIn('ValueError', self.log.output)
        self.assertNotIn('S3cret', self.log.output)

    def test_no_thread_is_to_be_had(self):
        """Or the interpreter is ending."""
        def fail(thread):
            raise RuntimeError("can't start new thread")

        self.patch(threading.Thread, 'start', fail)
        self.send(1, 2)
        self.assertEqual(1, len(self.lines('WARNING')))
        self.assertEqual(2, self.sender.close(0))

    def test_several_at_once(self):
        threads = [threading.Thread(target=self.send, args=range(50))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(0, self.sender.close(60))
        self.assertEqual(sorted(4 * list(range(50))),
                         sorted(self.delivered()))


class TestSwitches(SenderTestCase):

    def is_on(self, *drivers, event_notifications=True):
        self.set_driver(*drivers)
        self.conf.set_override('event_notifications', event_notifications,
                               'hmsync')
        subject = outbox.Outbox(self.conf, self.fail)
        if not subject.is_on:
            subject.send(make(1))
            self.assertEqual(0, subject.close())
        return subject.is_on

    def test_no_driver(self):
        """Octavia's default."""
        self.assertFalse(self.is_on())
        self.assertFalse(self.is_on('noop'))
        self.assertFalse(self.is_on(''))

    def test_driver(self):
        self.assertTrue(self.is_on('messagingv2'))
        self.assertTrue(self.is_on('noop', 'log'))

    def test_switched_off(self):
        self.assertFalse(self.is_on('messagingv2',
                                    event_notifications=False))

    def test_octavia_has_registered_the_options(self):
        conf = cfg.ConfigOpts()
        broker.has_driver(conf)
        self.assertFalse(broker.has_driver(conf))

    def test_nowhere(self):
        self.assertFalse(outbox.NOWHERE.is_on)
        outbox.NOWHERE.send(make(1))


class TestBroker(SenderTestCase):
    """oslo.messaging itself."""

    def test_what_is_sent(self):
        self.set_driver('test', transport_url='fake://')
        self.patch(_impl_test, 'NOTIFICATIONS', [])
        self.assertTrue(outbox.send_and_wait(
            self.conf, payloads.for_roll_back(
                7, ('192.0.2.1:5555',), 'silence', None, 'controller1'),
            timeout=10))
        (_context, message, priority, _retry), = _impl_test.NOTIFICATIONS
        self.assertEqual('ERROR', priority)
        self.assertEqual('octavia-hmsync.controller1',
                         message['publisher_id'])
        self.assertEqual('octavia_hmsync.generation.rolled_back',
                         message['event_type'])
        self.assertEqual({
            'version': '1.0', 'number': 7, 'replaced_by': None,
            'suspect_ip_port_list': ['192.0.2.1:5555'], 'reason': 'silence',
            'rolled_back_by': 'controller1'},
            json.loads(json.dumps(message['payload'])))

    def test_nobody_listens_at_the_address(self):
        """One line of ours, and none of the library."""
        with socket.socket() as unused:
            unused.bind(('127.0.0.1', 0))
            port = unused.getsockname()[1]
            self.set_driver(
                'messagingv2',
                transport_url=f'rabbit://octavia:S3cret@127.0.0.1:{port}/')
            self.patch(broker, '_RETRIES', 0)
            self.assertFalse(outbox.send_and_wait(
                self.conf, [make(1), make(2)], timeout=30))
        warning, = self.lines('WARNING')
        self.assertIn('Connection refused', warning)
        self.assertNotIn('S3cret', self.log.output)
        self.assertEqual([], self.lines('ERROR'))
        self.assertNotIn('Traceback', self.log.output)

    def test_others_may_complain(self):
        """What another thread logs is its own affair."""
        self.set_driver('test', transport_url='fake://')
        opened = broker.Broker(self.conf)
        self.addCleanup(opened.close)
        logger = logging.getLogger('oslo_messaging.notify.messaging')
        thread = threading.Thread(target=logger.error, args=('not ours',))
        thread.start()
        thread.join()
        self.assertIn('not ours', self.log.output)
        logger.error('ours')
        self.assertNotIn('\nERROR ours', self.log.output)

    def test_url_that_cannot_be_used(self):
        for url in ('nonsense://octavia:S3cret@192.0.2.1/',
                    'rabbit://octavia:S3cret@192.0.2.1:port/'):
            self.set_driver('messagingv2', transport_url=url)
            error = self.assertRaises(exceptions.NotificationsUnavailable,
                                      broker.Broker, self.conf)
            self.assertIn('transport_url', str(error))
            self.assertNotIn('S3cret', str(error))

# SPDX-License-Identifier: Apache-2.0

"""Sends notifications without ever blocking the caller.

A message broker may be down or hang. So a separate thread sends, and a queue
of limited length holds what waits. What cannot be delivered is dropped: the
database has the state, a notification only says when to look.
"""

import collections
import threading
import time

from oslo_log import log as logging

from octavia_hmsync import exceptions
from octavia_hmsync.notifications import broker

LOG = logging.getLogger(__name__)

# Some 5 MB when full.
LIMIT = 10000
# Seconds after which an unused connection is closed: it would need to be kept
# alive, and an old one is often broken.
_IDLE = 10
# The pause after a notification, as a multiple of its processor time.
_PAUSE = 4
# Seconds for which a stopping service waits for the rest to be sent.
FLUSH_TIMEOUT = 3


class Nowhere:
    """Stands in for an Outbox where no notifications are sent."""

    is_on = False

    def send(self, payload):
        """Do nothing."""


NOWHERE = Nowhere()


class Outbox:
    """Sends notifications from one process.

    The first notification starts its thread; nothing of it may cross a fork.
    Lost notifications cause one WARNING when the loss begins and one INFO,
    with their number, when it ends.

    :param open_broker: called with conf in the thread; returns a
                        broker.Broker.
    """

    def __init__(self, conf, open_broker=broker.Broker):
        self._conf = conf
        self._open_broker = open_broker
        # Whether notifications are sent. If not, callers need not look up
        # what was announced before.
        self.is_on = (conf.hmsync.event_notifications and
                      broker.has_driver(conf))
        self._changed = threading.Condition()
        self._waiting: collections.deque = collections.deque()
        self._is_sending = False
        self._is_closed = False
        self._thread = None
        self._problem = None
        # How many were lost, and how many before the present problem.
        self._lost = 0
        self._lost_before = 0

    def send(self, payload):
        """Queue a notification; never waits, and never raises."""
        if not self.is_on:
            return
        with self._changed:
            if self._is_closed:
                return
            problem = self._add(payload)
        if problem:
            self._note(problem)

    def _add(self, payload):
        """Queue a notification; returns why it cannot be queued."""
        if len(self._waiting) >= LIMIT:
            return f'{LIMIT} are waiting already'
        if self._thread is None:
            thread = threading.Thread(
                target=self._run, name='hmsync-notifications', daemon=True)
            try:
                thread.start()
            except RuntimeError as e:
                return f'no thread is to be had ({e})'
            self._thread = thread
        self._waiting.append(payload)
        self._changed.notify_all()
        return None

    def close(self, timeout=FLUSH_TIMEOUT):
        """Send what is left, take no more; return how many were dropped."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._waiting and not self._is_sending, timeout)
            self._is_closed = True
            left = len(self._waiting) + self._is_sending
            self._waiting.clear()
            self._changed.notify_all()
            lost = self._lost + left
        if left:
            LOG.warning('%d notifications were not sent until the end of '
                        'this process, which did not wait for longer.', left)
        return lost

    def _run(self):
        opened = None
        while True:
            payload = self._take(_IDLE if opened else None)
            if payload is None:
                self._close_broker(opened)
                opened = None
                if self._is_closed:
                    return
                continue
            cpu, problem = time.thread_time(), None
            try:
                opened = opened or self._open_broker(self._conf)
                opened.deliver(payload)
            except exceptions.NotificationsUnavailable as e:
                problem = str(e)
            except Exception as e:
                # Some texts hold the URL, and so a password.
                problem = type(e).__name__
            self._note(problem)
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
            if problem:
                self._close_broker(opened)
                opened = None
            time.sleep(_PAUSE * (time.thread_time() - cpu))

    def _take(self, timeout):
        """Wait for a notification; returns None if there is none."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._is_closed, timeout)
            if not self._waiting:
                return None
            self._is_sending = True
            return self._waiting.popleft()

    def _close_broker(self, opened):
        try:
            if opened is not None:
                opened.close()
        except Exception as e:
            LOG.debug('The connection to the message broker was not closed '
                      'in good order: %s.', type(e).__name__)

    def _note(self, problem):
        """Count lost ones, and log when a loss begins and ends."""
        with self._changed:
            begins = problem and not self._problem
            ends = self._problem and not problem and not self._waiting
            if begins:
                self._lost_before = self._lost
            if problem:
                self._lost += 1
            if problem or ends:
                self._problem = problem
            lost = self._lost - self._lost_before
        if begins:
            LOG.warning('Notifications cannot be sent and are dropped: %s. '
                        'All else goes on. Check the message broker at '
                        '[oslo_messaging_notifications] transport_url.',
                        problem)
        elif ends:
            LOG.info('Notifications are sent again; %d were lost.', lost)


def send_and_wait(conf, payloads, timeout=FLUSH_TIMEOUT):
    """Send from a command that ends; True if all, or none are wanted."""
    outbox = Outbox(conf)
    for payload in payloads:
        outbox.send(payload)
    return not outbox.close(timeout)

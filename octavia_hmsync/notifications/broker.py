# SPDX-License-Identifier: Apache-2.0

"""oslo.messaging, with an error for what it could not deliver.

Its drivers raise nothing. For each failed message they log a traceback and the
whole message. To log once that notifications get lost, this module reads those
log records.
"""

import logging
import threading

import oslo_messaging
from oslo_messaging import opts as messaging_opts

from octavia_hmsync import exceptions

# After a restart of the message broker each connection fails once.
_RETRIES = 2

# Loggers of a driver's failures.
_FAILURE_LOGGERS = ('oslo_messaging.notify.messaging',
                    'oslo_messaging.notify.notifier')
# Loggers of each failed attempt, as oslo.log names them.
_ATTEMPT_LOGGERS = ('oslo.messaging._drivers.impl_rabbit',
                    'oslo.messaging._drivers.amqpdriver')


class _Complaints(logging.Filter):
    """Intercepts the records of failures of a thread, and keeps the last."""

    def __init__(self):
        super().__init__()
        self._thread = threading.get_ident()
        self.failure = None

    def filter(self, record):
        if (record.thread != self._thread or
                record.levelno < logging.WARNING):
            return True
        if record.name in _FAILURE_LOGGERS:
            self.failure = (record.exc_info or (None, None))[1] or record
        return False


class Broker:
    """Delivers in one thread, or raises NotificationsUnavailable."""

    def __init__(self, conf):
        try:
            self._transport = oslo_messaging.get_notification_transport(conf)
            self._notifier = oslo_messaging.Notifier(
                self._transport, f'octavia-hmsync.{conf.host}',
                retry=_RETRIES)
        except Exception as e:
            # Some texts hold the URL, and so a password.
            raise exceptions.NotificationsUnavailable(
                f'[oslo_messaging_notifications] transport_url (or '
                f'transport_url) cannot be used ({type(e).__name__}): '
                f'correct octavia.conf') from None
        self._complaints = _Complaints()
        for name in _FAILURE_LOGGERS + _ATTEMPT_LOGGERS:
            logging.getLogger(name).addFilter(self._complaints)

    def deliver(self, payload):
        """Deliver a notification, or raise NotificationsUnavailable."""
        self._complaints.failure = None
        getattr(self._notifier, payload.PRIORITY)(
            {}, payload.EVENT_TYPE, payload.to_dict())
        if self._complaints.failure:
            raise exceptions.NotificationsUnavailable(
                _describe(self._complaints.failure))

    def close(self):
        for name in _FAILURE_LOGGERS + _ATTEMPT_LOGGERS:
            logging.getLogger(name).removeFilter(self._complaints)
        self._transport.cleanup()


def has_driver(conf):
    """Tell whether octavia.conf names a driver for notifications."""
    return bool(get_drivers(conf))


def get_drivers(conf):
    """Return the drivers for notifications that octavia.conf names, a list."""
    for group, options in messaging_opts.list_opts():
        if group == 'oslo_messaging_notifications':
            conf.register_opts(options, group=group)
    return [driver for driver in conf.oslo_messaging_notifications.driver
            if driver not in ('', 'noop')]


def _describe(failure):
    """Put a failure in one line; other texts may hold a password."""
    if isinstance(failure, oslo_messaging.MessageDeliveryFailure):
        return ' '.join(str(failure).split())
    cause = getattr(failure, '__cause__', None)
    if isinstance(cause, OSError):
        return f'{type(failure).__name__}, {cause}'
    return type(failure).__name__

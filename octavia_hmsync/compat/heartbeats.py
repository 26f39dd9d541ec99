# SPDX-License-Identifier: Apache-2.0

"""Reads the whole heartbeat, where Octavia calls statistics drivers.

Octavia passes these drivers the statistics of listeners, but not of members;
for a heartbeat without listeners it passes an empty list without an amphora.
The calling function holds the whole message in a variable, which is read here.
If another release has it elsewhere, nothing is found, and the caller does
without. It also tells how long each heartbeat waited.
"""

import functools
import importlib
import inspect
import time

from octavia.statistics import stats_base

StatsDriverMixin = stats_base.StatsDriverMixin

_MODULE = 'octavia.amphorae.drivers.health.heartbeat_udp'
_FUNCTION = 'update_stats'
_VARIABLE = 'health_message'
# Frames to search: Octavia's list of drivers and stevedore are in between.
_DEPTH = 15


def find_message():
    """Return the message for which update_stats() is being called."""
    frame = inspect.currentframe()
    try:
        for _ in range(_DEPTH):
            frame = frame.f_back if frame is not None else None
            if frame is None:
                return None
            if (frame.f_code.co_name == _FUNCTION and
                    frame.f_globals.get('__name__') == _MODULE):
                message = frame.f_locals.get(_VARIABLE)
                return message if isinstance(message, dict) else None
        return None
    finally:
        # A frame that refers to itself is freed late.
        del frame


def why_not():
    """Return why messages of the installed Octavia cannot be read, or None."""
    try:
        function = getattr(importlib.import_module(_MODULE), _FUNCTION)
    except (ImportError, AttributeError):
        return f'{_MODULE}.{_FUNCTION} is gone'
    if _VARIABLE not in inspect.signature(function).parameters:
        return f'{_MODULE}.{_FUNCTION} has no parameter {_VARIABLE} any more'
    return None


def watch_delays(note):
    """Have the delay of each heartbeat noted when Octavia is done with it.

    Octavia ignores one that has waited for heartbeat_interval, and offers
    plugins no say in it. So its method is wrapped, once in a process, before
    octavia-health-manager forks.

    :param note: called with the seconds since it was received, in the process
                 that recorded it, or ignored it.
    :raises AttributeError, ImportError: if the installed Octavia has no such
                                         method.
    """
    kind = importlib.import_module(_MODULE).UpdateHealthDb
    stock = kind.update_health
    if hasattr(stock, 'hmsync_stock'):
        return

    @functools.wraps(stock)
    def update_health(self, health, *args, **kwargs):
        try:
            return stock(self, health, *args, **kwargs)
        finally:
            if 'recv_time' in health:
                note(time.time() - health['recv_time'])

    setattr(update_health, 'hmsync_stock', stock)
    kind.update_health = update_health

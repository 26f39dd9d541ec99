# SPDX-License-Identifier: Apache-2.0

"""Turns the clock of a Python process; Python imports this at its start.

What a controller with a wrong clock sees: the time of day is off, and time
passes as everywhere. (A preloaded library that does it for C breaks
``time.sleep``.)
"""

import datetime
import os
import time

_AHEAD = float(os.environ['TEST_CLOCK_AHEAD'])
_REAL_TIME = time.time
_REAL_TIME_NS = time.time_ns
_RealDateTime = datetime.datetime


class _Meta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _RealDateTime)


class _DateTime(_RealDateTime, metaclass=_Meta):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=_AHEAD)

    @classmethod
    def utcnow(cls):
        return super().utcnow() + datetime.timedelta(seconds=_AHEAD)


time.time = lambda: _REAL_TIME() + _AHEAD
time.time_ns = lambda: _REAL_TIME_NS() + int(_AHEAD * 10 ** 9)
datetime.datetime = _DateTime

#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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

# SPDX-License-Identifier: Apache-2.0

"""Maintenance windows: when a rollout may begin a replacement.

Pure rules. A window is days of the week and a time of day, in UTC: "Sat,Sun
01:00-05:00", "Mon-Fri 22:00-04:00", or "01:00-05:00" for each day. Several
windows are separated by a semicolon. A window across midnight belongs to the
day on which it opens.
"""

import dataclasses
import datetime
import re

from octavia_hmsync import exceptions

_DAYS = ('mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun')
_NAMES = ('monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday',
          'sunday')
_DAY = 24 * 60
_WEEK = 7 * _DAY
_WINDOW = re.compile(r'(?:(?P<days>[a-z][a-z,\s-]*?)\s+)?'
                     r'(?P<begin>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)')


@dataclasses.dataclass(frozen=True)
class Window:
    """A time span in each week, in minutes from Monday 00:00."""

    begin: int
    minutes: int


def parse(text: str) -> tuple[Window, ...]:
    """Read windows (none: always), by day, or raise NotPossible."""
    windows = []
    for part in text.split(';') if text.strip() else ():
        windows += _parse_one(part.strip())
    return tuple(sorted(set(windows), key=lambda w: (w.begin, w.minutes)))


def _parse_one(text: str) -> list[Window]:
    match = _WINDOW.fullmatch(text.lower())
    if not match:
        raise _wrong(text, 'it is no days and time')
    begin, end = (_parse_time(text, match[name]) for name in ('begin', 'end'))
    if begin == _DAY:
        raise _wrong(text, 'a day begins at 00:00')
    if begin == end:
        raise exceptions.NotPossible(
            f'The maintenance window {text!r} never opens: it ends when it '
            f'begins. Give it a later end; 00:00-24:00 is the whole day.')
    return [Window(day * _DAY + begin, (end - begin) % _DAY or _DAY)
            for day in _parse_days(text, match['days'])]


def _wrong(text: str, why: str) -> exceptions.NotPossible:
    return exceptions.NotPossible(
        f'The maintenance window {text!r} cannot be read: {why}. Write it '
        f'like "Sat,Sun 01:00-05:00", in UTC.')


def _parse_time(text: str, time: str) -> int:
    hour, minute = map(int, time.split(':'))
    if minute > 59 or hour * 60 + minute > _DAY:
        raise _wrong(text, f'there is no {time}')
    return hour * 60 + minute


def _parse_days(text: str, days: str | None) -> list[int]:
    if days is None:
        return list(range(7))
    found = []
    for part in days.split(','):
        ends = [_parse_day(text, name.strip()) for name in part.split('-')]
        if len(ends) > 2:
            raise _wrong(text, f'{part.strip()} are no days')
        first, last = ends[0], ends[-1]
        # "Sat-Mon" goes beyond the end of the week.
        found += [(first + n) % 7 for n in range((last - first) % 7 + 1)]
    return found


def _parse_day(text: str, name: str) -> int:
    for number, day in enumerate(_DAYS):
        if name in (day, _NAMES[number]):
            return number
    raise _wrong(text, f'{name or "nothing"} is no day, of Mon, Tue, Wed, '
                       f'Thu, Fri, Sat and Sun')


def _minute_of(now: datetime.datetime) -> float:
    return (now.weekday() * _DAY + now.hour * 60 + now.minute +
            now.second / 60 + now.microsecond / 60e6)


def is_open(windows: tuple[Window, ...], now: datetime.datetime) -> bool:
    """Tell whether a replacement may begin; without windows always."""
    minute = _minute_of(now)
    return not windows or any(
        (minute - window.begin) % _WEEK < window.minutes
        for window in windows)


def get_opening(windows: tuple[Window, ...],
                now: datetime.datetime) -> datetime.datetime:
    """Return when a replacement may begin."""
    if is_open(windows, now):
        return now
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    today = now.weekday() * _DAY
    return min(opening for opening in (
        midnight + datetime.timedelta(minutes=(window.begin - today) % _WEEK +
                                      week)
        for window in windows for week in (0, _WEEK)) if opening > now)

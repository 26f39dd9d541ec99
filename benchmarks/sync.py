# SPDX-License-Identifier: Apache-2.0

"""How long a change of the health managers takes to reach a whole fleet.

::

    python -m benchmarks.sync [--amphorae N ...] [--housekeepers N ...]
                              [--ailing PERCENT ...] [--answer-after S]
                              [--concurrency N]

For each combination: a MariaDB, real health managers with Octavia's failover
loop and heartbeat_timeout = 60, real housekeepers, and the fleet, all on one
machine. A third health manager comes up; its address has to reach every
amphora.

A health manager takes about 4 ms of CPU for a heartbeat. So of a fleet that
is too large for this machine only some amphorae send heartbeats, as many as
--heartbeats per second; adoption is that of these.
"""

import argparse
import datetime
import itertools
import re
import time

import psutil
import sqlalchemy as sa
from sqlalchemy import pool

from benchmarks import report
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.cloud import ailing
from tests.cloud import waiting
from tests.fleet import amphora as fleet_amphora
from tests.fleet import cloud as fleet_cloud

COLUMNS = ['amphorae', 'housekeepers', 'ailing', 'published_s',
           'last_upload_s', 'per_s',
           'last_adoption_s', 'proven', 'heartbeating', 'cpu_ms', 'memory_mb',
           'failovers']
AILMENTS = (ailing.SILENT, ailing.BLACK_HOLE, ailing.HANGS_IN_ANSWER)
TIMEOUT = 600


class Run:
    """One combination.

    :param amphorae: how many.
    :param housekeepers: how many.
    :param ailing_percent: how many of the amphorae begin to ail together
                           with the change, a third of them in each way.
    :param heartbeats: per second, at most.
    :param interval: heartbeat_interval, seconds.
    :param answer_after: seconds that each agent takes to answer.
    :param options: {group: {option: value}} for every controller.
    """

    def __init__(self, amphorae, housekeepers=1, ailing_percent=0,
                 heartbeats=100, interval=10, answer_after=0.0, options=None):
        self._housekeepers = housekeepers
        self._interval = interval
        self._answer_after = answer_after
        self._cloud = fleet_cloud.FleetCloud(
            amphorae, listeners=True, options={
                'health_manager': {'heartbeat_interval': self._interval,
                                   'heartbeat_timeout': 60,
                                   'health_check_interval': 3},
                **(options or {})})
        ids = [member['id'] for member in self._cloud.members]
        step = max(1, round(amphorae / (heartbeats * self._interval)))
        self._heartbeating = set(ids[::step])
        # From the others, where there are some.
        ails = sorted(ids, key=lambda i: i in self._heartbeating)[
            :amphorae * ailing_percent // 100]
        self._ailing = dict(zip(ails, itertools.cycle(AILMENTS)))
        self._healthy = set(ids) - set(ails)

    def measure(self):
        """Run it.

        :returns: a dict with the COLUMNS, ``aborted`` (requests that did not
                  reach a healthy amphora whole) and ``shares`` (amphorae that
                  each housekeeper has configured since its start).
        """
        with self._cloud as cloud:
            self._engine = sa.create_engine(cloud.database.engine.url,
                                            poolclass=pool.NullPool)
            return self._measure(cloud)

    def _measure(self, cloud):
        keepers = [cloud.add_housekeeping(f'hk{n}')
                   for n in range(self._housekeepers)]
        managers = [cloud.add_health_manager(cloud.address(n))
                    for n in (1, 2)]
        self._fleet = cloud.start_fleet(
            [m.address for m in managers], self._interval, ailments={
                member['id']: fleet_amphora.MUTE for member in cloud.members
                if member['id'] not in self._heartbeating},
            delay=self._answer_after)
        idle = [psutil.Process(k.pid).memory_info().rss for k in keepers]
        cloud.wait_until_ready()
        self._wait(self._is_settled, 'first sync')
        # Those without heartbeats count as known to use their list, as in
        # any fleet at rest.
        with self._engine.begin() as connection:
            connection.execute(
                sa.update(models.Amphora)
                .where(models.Amphora.adopted_at.is_(None))
                .values(adopted_at=models.Amphora.applied_at))
        self._fleet.reset()
        if self._answer_after:
            self._fleet.set_ailment(self._healthy, ailing.SLOW)
        for ailment in AILMENTS:
            self._fleet.set_ailment(
                [i for i, a in self._ailing.items() if a == ailment], ailment)
        cpu = self._cpu(keepers)
        new = cloud.add_health_manager(cloud.address(3))
        self._wait(lambda: self._fleet.state()['answers'].get('202', 0) >=
                   len(self._healthy), 'uploads')
        cpu = self._cpu(keepers) - cpu
        began = self._registered_at(new)
        ended = self._last(1)
        expected = len(self._healthy & self._heartbeating)
        self._wait(lambda: self._fleet.state()['adopted'] >= expected and
                   self._proven() >= expected, 'adoption')
        adopted = self._last(3)
        return {
            'amphorae': len(cloud.members),
            'housekeepers': self._housekeepers,
            'ailing': len(self._ailing),
            'published_s': self._published_at() - began,
            'last_upload_s': ended - began,
            'per_s': len(self._healthy) / (ended - self._published_at()),
            'last_adoption_s': adopted - began,
            'proven': self._proven(),
            'heartbeating': len(self._heartbeating),
            'cpu_ms': cpu / len(cloud.members) * 1000,
            'memory_mb': max(_peak(k.pid) - before for k, before in
                             zip(keepers, idle)) / 1e6,
            'failovers': len(cloud.failovers_begun()),
            'aborted': sum(counts[4] for i, counts in
                           self._fleet.amphorae().items()
                           if i in self._healthy),
            'shares': [_configured(k) for k in keepers]}

    def _wait(self, condition, what):
        # Each look takes time that is missing elsewhere.
        waiting.wait_for(condition, what, TIMEOUT, interval=0.5, processes=[
            *self._cloud.controllers, self._fleet])

    def _is_settled(self):
        newest = generation_repo.get_newest(self._engine)
        return (newest is not None and len(newest.slots) == 2 and
                not amphora_repo.count(self._engine, newest.number).due and
                self._fleet.state()['adopted'] >= len(self._heartbeating) and
                self._proven() >= len(self._heartbeating))

    @staticmethod
    def _cpu(keepers):
        return sum(report.cpu_seconds(k.pid) for k in keepers)

    def _last(self, column):
        """Time of the last one, of the healthy."""
        return max(counts[column] for i, counts in
                   self._fleet.amphorae().items()
                   if i in self._healthy and counts[column] is not None)

    def _proven(self):
        """How many amphorae are known to use their list."""
        with self._engine.connect() as connection:
            return connection.execute(
                sa.select(sa.func.count())
                .where(models.Amphora.adopted_at !=
                       models.Amphora.applied_at)).scalar()

    def _published_at(self):
        """When the newest list was published, as time.time() has it."""
        published = generation_repo.get_newest(self._engine).published_at
        return published.replace(tzinfo=datetime.timezone.utc).timestamp()

    def _registered_at(self, health_manager):
        """When it registered, as time.time() has it."""
        member = next(m for m in hm_repo.get_all(self._engine)
                      if m.host == health_manager.host)
        return time.time() - member.online_for


def _configured(keeper):
    return sum(map(int, re.findall(r'Configured amphorae: (\d+) APPLIED',
                                   keeper.log())))


def _peak(pid):
    """Return the most memory that a process has had, bytes."""
    with open(f'/proc/{pid}/status') as status:
        return next(int(line.split()[1]) * 1024 for line in status
                    if line.startswith('VmHWM:'))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--amphorae', type=int, nargs='+',
                        default=[1000, 3000, 10000])
    parser.add_argument('--housekeepers', type=int, nargs='+',
                        default=[1, 2])
    parser.add_argument('--ailing', type=int, nargs='+', default=[0, 5],
                        help='percent of the amphorae')
    parser.add_argument('--heartbeats', type=int, default=100,
                        help='per second, at most')
    parser.add_argument('--answer-after', type=float, default=0,
                        help='seconds that each agent takes')
    parser.add_argument('--concurrency', type=int, default=512,
                        help='[hmsync] upload_concurrency')
    args = parser.parse_args()
    report.print_results('sync', COLUMNS, [
        Run(amphorae, housekeepers, ailing_percent, args.heartbeats,
            answer_after=args.answer_after, options={'hmsync': {
                'upload_concurrency': args.concurrency}}).measure()
        for amphorae, housekeepers, ailing_percent in itertools.product(
            args.amphorae, args.housekeepers, args.ailing)])


if __name__ == '__main__':
    main()

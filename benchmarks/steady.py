# SPDX-License-Identifier: Apache-2.0

"""What the plugin costs while nothing changes.

::

    python -m benchmarks.steady [--amphorae N ...] [--minutes M]

With and without the plugin, and for each size of the fleet: the SQL
statements and the CPU time per minute of one health manager and one
housekeeper, with every amphora at the newest list and known to use it.
Heartbeats come at the same rate whatever the size, because each costs Octavia
a dozen statements: of a large fleet, only some amphorae send them.
"""

import argparse
import time

import sqlalchemy as sa
from sqlalchemy import pool

from benchmarks import report
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from tests.cloud import waiting
from tests.fleet import amphora as fleet_amphora
from tests.fleet import cloud as fleet_cloud

COLUMNS = ['amphorae', 'plugin', 'heartbeats', 'statements',
           'health_manager_cpu_s', 'housekeeping_cpu_s', 'database_cpu_s']
INTERVAL = 10
# Some amphorae for each health manager process, however large the fleet.
HEARTBEATS_PER_S = 10
TIMEOUT = 300


def run(amphorae, with_plugin, minutes=1.0, settle=15):
    """Measure.

    :param amphorae: how many.
    :param with_plugin: whether the plugin is on.
    :param minutes: for how long.
    :param settle: seconds to wait before.
    :returns: a dict with the COLUMNS; all but the first two per minute.
    """
    options = {'health_manager': {'heartbeat_interval': INTERVAL,
                                  'heartbeat_timeout': 60,
                                  'health_check_interval': 3}}
    with fleet_cloud.FleetCloud(
            amphorae, listeners=True, options=options,
            hmsync=fleet_cloud.DEFAULTS if with_plugin else {}) as cloud:
        manager = cloud.add_health_manager(cloud.address(1))
        keeper = cloud.add_housekeeping()
        step = max(1, amphorae // (HEARTBEATS_PER_S * INTERVAL))
        fleet = cloud.start_fleet(
            [manager.address], INTERVAL, ailments={
                member['id']: fleet_amphora.MUTE
                for n, member in enumerate(cloud.members) if n % step})
        cloud.wait_until_ready()
        if with_plugin:
            _settle(cloud)
        time.sleep(settle)
        return {'amphorae': amphorae, 'plugin': with_plugin,
                **_measure(cloud.database.server, fleet, manager, keeper,
                           minutes)}


def _settle(cloud):
    """Have every amphora at the newest list, and known to use it."""
    engine = sa.create_engine(cloud.database.engine.url,
                              poolclass=pool.NullPool)
    waiting.wait_for(
        lambda: generation_repo.get_newest(engine) is not None and
        not amphora_repo.count(engine, 1).due, 'sync', TIMEOUT,
        processes=cloud.controllers)
    with engine.begin() as connection:
        # Those without heartbeats would not be, and that is no rest.
        connection.execute(sa.update(models.Amphora).values(
            adopted_at=models.Amphora.applied_at))


def _measure(server, fleet, manager, keeper, minutes):
    def look():
        return {'heartbeats': fleet.state()['heartbeats'],
                'statements': _statements(server),
                'health_manager_cpu_s': report.cpu_seconds(manager.pid),
                'housekeeping_cpu_s': report.cpu_seconds(keeper.pid),
                'database_cpu_s': report.cpu_seconds(server.pid)}

    before = look()
    time.sleep(60 * minutes)
    return {column: (value - before[column]) / minutes
            for column, value in look().items()}


def _statements(server):
    """Return how many statements the server has executed."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(variable_value) FROM information_schema.global_status "
            "WHERE variable_name IN ('COM_SELECT', 'COM_INSERT', "
            "'COM_UPDATE', 'COM_DELETE', 'COM_REPLACE')")
        return int(cursor.fetchone()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--amphorae', type=int, nargs='+',
                        default=[100, 10000])
    parser.add_argument('--minutes', type=float, default=1)
    args = parser.parse_args()
    report.print_results('steady, per minute', COLUMNS, [
        run(amphorae, with_plugin, args.minutes)
        for amphorae in args.amphorae for with_plugin in (False, True)])


if __name__ == '__main__':
    main()

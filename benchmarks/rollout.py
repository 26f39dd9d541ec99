# SPDX-License-Identifier: Apache-2.0

"""How long it takes a rollout of an image to tell who is next.

::

    python -m benchmarks.rollout [--load-balancers N ...] [--rounds N]

All that housekeeping reads of a real MariaDB and decides in each round of a
rollout: at its start, and when half of the load balancers are done. Half of
them are pairs; they have eight flavors and three availability zones, the
rollout has canaries and limits, and some load balancers are excluded.
"""

import argparse
import itertools
import statistics
import time

from oslo_config import cfg
import sqlalchemy as sa

from benchmarks import report
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import reading
from octavia_hmsync.image.rollout import rules
from octavia_hmsync.image import target
from tests.cloud import database
from tests.cloud import records
from tests.unit import octavia_opts

COLUMNS = ['load_balancers', 'done', 'begin', 'statements', 'read_s',
           'rules_s']
SETTINGS = rollout_repo.Settings(
    'replace', canaries=1, parallel=20, parallel_per_az=10, rate_per_hour=0,
    max_failures=3, windows='00:00-24:00')
FLAVORS = 8
ZONES = ('az1', 'az2', 'az3')
# Octavia's no-op image driver answers for each tag.
NEW = '1'
EXCLUDED = 20


def run(load_balancers=10000, rounds=3):
    """Measure.

    :param load_balancers: how many.
    :param rounds: how often; the median counts.
    :returns: a list of dicts with the COLUMNS.
    """
    with database.MariaDBDatabase() as made:
        schema.upgrade(made.engine)
        conf = _make_conf(made.connection)
        engine = api.create_engine(conf)
        try:
            ids = _fill(made.records, load_balancers)
            for number in ids[:min(EXCLUDED, load_balancers // 2)]:
                exclusion_repo.add(engine, records.new_id(), 'LOAD_BALANCER',
                                   number, 'benchmark')
            rollout_repo.add(engine, 'rollout', SETTINGS)
            rows = []
            for done in (0, load_balancers // 2):
                _finish(made.records, engine, ids[len(ids) - done:])
                rows.append({'load_balancers': load_balancers, 'done': done,
                             **_measure(conf, engine, rounds)})
            return rows
        finally:
            engine.dispose()


def _make_conf(connection):
    conf = cfg.ConfigOpts()
    groups.register(conf)
    octavia_opts.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for group, name, value in (
            ('database', 'connection', connection),
            ('controller_worker', 'image_driver', 'image_noop_driver'),
            ('controller_worker', 'amp_image_tag', 'amphora')):
        conf.set_override(name, value, group=group)
    return conf


def _fill(made, number):
    """Add load balancers of which every other one is a pair.

    :returns: their ids, in order.
    """
    flavors = [None, *(made.add_flavor() for _ in range(FLAVORS - 1))]
    ids = sorted(records.new_id() for _ in range(number))
    kinds = itertools.cycle(itertools.product(records.ROLES, flavors, ZONES))
    load_balancers, amphorae = [], []
    for lb_id, (topology, flavor, zone) in zip(ids, kinds):
        load_balancers.append({
            **records.load_balancer_row(lb_id, topology, flavor),
            'availability_zone': zone})
        amphorae += [records.amphora_row(records.new_id(), '192.0.2.1',
                                         lb_id, role)
                     for role in records.ROLES[topology]]
    with made.engine.begin() as connection:
        # Of zones and their profiles nothing is read.
        connection.execute(sa.text('SET foreign_key_checks = 0'))
        for table, rows in (('load_balancer', load_balancers),
                            ('amphora', amphorae)):
            connection.execute(made.tables[table].insert(), rows)
    return ids


def _finish(made, engine, ids):
    """Have load balancers upgraded by the rollout."""
    if not ids:
        return
    amphora = made.tables['amphora']
    table = made.tables['load_balancer']
    with engine.begin() as connection:
        connection.execute(amphora.update().where(
            amphora.c.load_balancer_id.in_(ids)).values(image_id=NEW))
        found = connection.execute(sa.select(table).where(
            table.c.id.in_(ids))).all()
        connection.execute(sa.insert(models.ImageReplacement.__table__), [{
            'id': records.new_id(), 'rollout_id': 'rollout',
            'load_balancer_id': row.id, 'topology': row.topology,
            'flavor_id': row.flavor_id, 'mode': 'replace',
            'availability_zone': row.availability_zone,
            'target_image_id': NEW, 'canary': False, 'state': 'DONE',
            'attempts': 1, 'created_at': records.utcnow(),
            'started_at': records.utcnow(),
            'finished_at': records.utcnow()} for row in found])


def _measure(conf, engine, rounds):
    statements = []

    def add(*args):
        statements.append(args[2])

    read, decided = [], []
    sa.event.listen(engine, 'before_cursor_execute', add)
    for _ in range(rounds):
        statements.clear()
        start = time.perf_counter()
        rollout = rollout_repo.get_active(engine)
        situation = reading.read_situation(conf, engine,
                                           target.Targets(conf), rollout)
        read.append(time.perf_counter() - start)
        start = time.perf_counter()
        decision = rules.decide(situation)
        decided.append(time.perf_counter() - start)
    sa.event.remove(engine, 'before_cursor_execute', add)
    return {'begin': len(decision.chosen), 'statements': len(statements),
            'read_s': statistics.median(read),
            'rules_s': statistics.median(decided)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--load-balancers', type=int, nargs='+',
                        default=[100, 10000])
    parser.add_argument('--rounds', type=int, default=3)
    args = parser.parse_args()
    report.print_results('rollout, who is next', COLUMNS, [
        row for number in args.load_balancers
        for row in run(number, args.rounds)])


if __name__ == '__main__':
    main()

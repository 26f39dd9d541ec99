# SPDX-License-Identifier: Apache-2.0

import csv
import datetime
from importlib import metadata
import io
import json
import os
import re
import subprocess
import sys

import fixtures
import yaml

from octavia_hmsync.cli import symbols
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cmd import hmsync
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from tests.cloud import process
from tests.cloud import records
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.cli import base

COLUMNS = {
    ('health', 'manager', 'list'): [
        'host', 'ip_address', 'port', 'status', 'key', 'zone'],
    ('amphora', 'list'): ['id', 'status', 'result', 'adoption'],
    ('amphora', 'list', '--long'): [
        'id', 'status', 'result', 'adoption', 'loadbalancer_id',
        'loadbalancer_name', 'role', 'lb_network_ip', 'generation', 'error',
        'applied_at', 'attempts', 'next_attempt_at', 'adopted_at',
        'adopted_via', 'held_since', 'certificate_ends_at'],
    ('generation', 'list', '--long'): [
        'number', 'status', 'published_at', 'completed_at',
        'controller_ip_port_list', 'reason'],
    ('sync', 'status'): [
        'generation', 'status', 'paused_until', 'controller_ip_port_list',
        'suspects', 'blind_controllers', 'problems', 'amphorae', 'due',
        'applied', 'unreachable', 'rejected', 'unsupported', 'untried',
        'other_key', 'adopted', 'pending', 'not_adopted', 'unproven'],
}
LIST = ('192.0.2.101:5555', '192.0.2.102:5555')
# Of all lists, or of all objects.
CLIFF_OPTIONS = {'--column', '--sort-column', '--prefix', '--variable'}


class TestCommands(base.CommandTestCase):

    def populate(self):
        hm_repo.register(self.engine, 'hm1', '192.0.2.101', 5555, 'a', 20)
        hm_repo.register(self.engine, 'hm2', '2001:db8::1', 5555, 'b', 20)
        self.make_older(models.HealthManager, 'keepalive_at', 21, host='hm2')
        generation_repo.publish(self.engine, 1, dict(zip(LIST, (0, 1))),
                                'because', 'controller1')
        self.ids = sorted(self.add_amphorae(4))
        amphora_repo.add_missing(self.engine)
        claim_repo.claim_due(self.engine, 1, 'batch', 10, 60)
        outcome_repo.record(self.engine, 1, 'batch', [
            outcome_repo.Outcome(self.ids[0], 'APPLIED', LIST),
            *(outcome_repo.Outcome(amphora_id, result, LIST, 'a, "b"', 10)
              for amphora_id, result in zip(self.ids[1:], (
                  'UNREACHABLE', 'REJECTED', 'UNSUPPORTED')))])

    def test_columns_in_each_format(self):
        self.populate()
        for command, columns in COLUMNS.items():
            is_list = 'list' in command
            found = self.run_json(*command)
            self.assertEqual(columns, list(found[0] if is_list else found))
            self.assertEqual(found, yaml.safe_load(
                self.run_ok(*command, '-f', 'yaml')))
            table = self.run_ok(*command, '-f', 'table')
            value = self.run_ok(*command, '-f', 'value')
            for column in columns:
                self.assertIn(column, table)
                self.assertNotIn(column, value.split())
            self.assertEqual(table, self.run_ok(*command))
            rows = list(csv.DictReader(io.StringIO(
                self.run_ok(*command, '-f', 'csv'))))
            self.assertEqual(columns, list(rows[0]))
            self.assertEqual(len(found) if is_list else 1, len(rows))

    def test_health_managers(self):
        self.populate()
        rows = self.run_json('health', 'manager', 'list')
        self.assertEqual(
            [('hm1', '192.0.2.101', 5555, 'ONLINE'),
             ('hm2', '2001:db8::1', 5555, 'OFFLINE')],
            [(r['host'], r['ip_address'], r['port'], r['status'])
             for r in rows])
        self.assertRegex(self.run_json('health', 'manager', 'list', '--long')
                         [0]['keepalive_at'],
                         r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$')

    def test_health_manager(self):
        self.populate()
        shown = self.run_json('health', 'manager', 'show', 'hm2')
        self.assertEqual(('hm2', '2001:db8::1', 'OFFLINE'), (
            shown['host'], shown['ip_address'], shown['status']))
        self.assertEqual((None, None), (shown['starting_at'],
                                        shown['restart_took']))
        self.assertFails('There is no health manager nobody',
                         'health', 'manager', 'show', 'nobody')

    def test_own_health_manager(self):
        """As a readiness probe asks."""
        argv = ('health', 'manager', 'show', '--self')
        self.assertFails('no health manager controller1', *argv)
        hm_repo.register(self.engine, 'controller1', '192.0.2.1', 5555, 'a',
                         20, start_took=24.7)
        hm_repo.set_starting(self.engine, 'controller1', 'b')
        shown = self.run_json(*argv)
        self.assertEqual(('ONLINE', 25),
                         (shown['status'], shown['restart_took']))
        self.assertTrue(shown['starting_at'])
        hm_repo.change_status(self.engine, 'controller1', 'ONLINE',
                              'DRAINING')
        self.assertEqual('DRAINING', self.run_json(*argv)['status'])
        self.make_older(models.HealthManager, 'keepalive_at', 21)
        self.assertFails('is OFFLINE', *argv)

    def test_amphorae(self):
        self.populate()
        new = self.records.add_amphora('192.0.2.9')
        rows = {r['id']: r for r in self.run_json('amphora', 'list',
                                                  '--long')}
        self.assertEqual({*self.ids, new}, set(rows))
        applied, failed = rows[self.ids[0]], rows[self.ids[1]]
        self.assertEqual((1, 'APPLIED', 1, None), (
            applied['generation'], applied['result'], applied['attempts'],
            applied['error']))
        self.assertRegex(applied['applied_at'], r'^\d{4}-\d\d-\d\dT')
        self.assertEqual((None, 'UNREACHABLE', None, 'a, "b"'), (
            failed['generation'], failed['result'], failed['applied_at'],
            failed['error']))
        self.assertEqual((None, None, 0), (
            rows[new]['generation'], rows[new]['result'],
            rows[new]['attempts']))

    def test_amphorae_filtered(self):
        self.populate()
        lb = self.records.add_load_balancer()
        of_lb = self.records.add_amphora('192.0.2.8', lb)
        self.records.change(
            'amphora', of_lb, cert_expiration=records.utcnow() +
            datetime.timedelta(days=20))
        for arguments, expected in (
                (('--result', 'unreachable'), {self.ids[1]}),
                (('--result', 'APPLIED'), {self.ids[0]}),
                (('--loadbalancer', lb), {of_lb}),
                (('--loadbalancer', f'lb-{lb[:8]}'), {of_lb}),
                (('--role', 'standalone'), {*self.ids, of_lb}),
                (('--role', 'MASTER'), set()),
                (('--status', 'allocated', '--loadbalancer', lb), {of_lb}),
                (('--status', 'ERROR'), set()),
                (('--loadbalancer', lb, '--result', 'APPLIED'), set()),
                (('--health-manager', 'hm1'), {self.ids[0]}),
                (('--health-manager', 'hm2'), set()),
                (('--certificate-ends-within', '21'), {of_lb}),
                (('--certificate-ends-within', '19'), set()),
                (('--not-adopted',), set())):
            self.assertEqual(expected, {row['id'] for row in self.run_json(
                'amphora', 'list', *arguments)})
        self.assertFails('There is no health manager nobody',
                         'amphora', 'list', '--health-manager', 'nobody')
        self.assertFails('There is no load balancer none: see', 'amphora',
                         'list', '--loadbalancer', 'none')
        # As from a variable that is not set.
        for option in ('--health-manager', '--loadbalancer'):
            self.assertEqual(1, self.run_command('amphora', 'list', option,
                                                 '')[0])

    def test_load_balancers_without_amphorae_or_of_one_name(self):
        ids = [f'aaaaaaaa-{n}' for n in (1, 2)]
        for load_balancer_id in ids:
            self.records.add_load_balancer(load_balancer_id=load_balancer_id)
        argv = ('amphora', 'list', '--loadbalancer')
        self.assertFails(f'There are 2 load balancers lb-aaaaaaaa: give the '
                         f'id of one of them, {", ".join(ids)}.', *argv,
                         'lb-aaaaaaaa')
        self.assertFails(f'Load balancer {ids[0]} has no amphora with an '
                         f'agent', *argv, ids[0])

    def test_amphorae_by_page(self):
        ids = sorted(self.add_amphorae(5))
        argv = ('amphora', 'list', '--limit', '2')
        seen = []
        while page := [row['id'] for row in self.run_json(
                *argv, *(('--marker', seen[-1]) if seen else ()))]:
            self.assertLessEqual(len(page), 2)
            seen += page
        self.assertEqual(ids, seen)
        self.assertFails('nobody is not in this list', *argv, '--marker',
                         'nobody')
        for limit in ('0', '-1', 'x', ''):
            code, _out, err = self.run_command('amphora', 'list',
                                               f'--limit={limit}')
            self.assertEqual(2, code)
            self.assertIn('is not a number above 0', err)

    def test_every_list_by_page(self):
        """By the same options; image commands have tests of their own."""
        self.populate()
        for number in (3, 4):
            hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                             5555, 'a', 20)
        argv = ('health', 'manager', 'list', '-c', 'host', '-f', 'value')
        self.assertEqual('hm1\nhm2\n', self.run_ok(*argv, '--limit', '2'))
        self.assertEqual('hm3\n', self.run_ok(
            *argv, '--limit', '1', '--marker', 'hm2'))
        self.assertEqual('', self.run_ok(*argv, '--marker', 'hm4'))
        for command in all_commands(()):
            if (command[-1] in ('list', 'history') and
                    command[0] not in ('host', 'image', 'network',
                                       'order', 'zone')):
                self.assertFails('nobody is not in this list', *command,
                                 '--limit', '1', '--marker', 'nobody')

    def test_columns_of_long_by_their_names(self):
        """Nobody has to say it twice."""
        self.populate()
        self.assertEqual('1\n1\n1\n1\n', self.run_ok(
            'amphora', 'list', '-c', 'attempts', '-f', 'value'))

    def test_lists(self):
        """As octavia.conf has them, for people; lists, for programs."""
        self.populate()
        text = ', '.join(LIST)
        for command in (['sync', 'status'], ['generation', 'list'],
                        ['generation', 'show', '1'],
                        ['amphora', 'show', self.ids[0]]):
            argv = (*command, '-c', 'controller_ip_port_list', '-f')
            self.assertEqual(f'{text}\n', self.run_ok(*argv, 'value'))
            self.assertIn(f'"{text}"', self.run_ok(*argv, 'csv'))
            self.assertIn(f'| {text} ', self.run_ok(*argv, 'table'))
            for load, form in ((json.loads, 'json'),
                               (yaml.safe_load, 'yaml')):
                found = load(self.run_ok(*argv, form))
                found = found[0] if isinstance(found, list) else found
                self.assertEqual({'controller_ip_port_list': list(LIST)},
                                 found)
        self.assertEqual(f'controller_ip_port_list="{text}"\n', self.run_ok(
            'sync', 'status', '-f', 'shell', '-c', 'controller_ip_port_list'))

    def test_metavars(self):
        """One style; what a command takes is called by its name."""
        wrong = []
        app = hmsync.HMSyncApp()
        for name, _entry_point in app.command_manager:
            if name in ('help', 'complete'):
                continue
            factory = app.command_manager.find_command(name.split())[0]
            for action in factory(app, None).get_parser(name)._actions:
                if (action.nargs != 0 and not action.choices and
                        not CLIFF_OPTIONS & set(action.option_strings) and
                        not re.fullmatch(r'<[a-z-]+>', action.metavar or '')):
                    wrong.append((name, action.dest, action.metavar))
        self.assertEqual([], wrong)

    def test_amphora(self):
        self.populate()
        new = self.records.add_amphora('192.0.2.9')
        applied = self.run_json('amphora', 'show', self.ids[0])
        self.assertEqual(list(LIST), applied['controller_ip_port_list'])
        self.assertEqual(('PENDING', [None], None), (
            applied['adoption'], applied['may_be_using'], applied['error']))
        failed = self.run_json('amphora', 'show', self.ids[1])
        self.assertEqual(('UNREACHABLE', 'a, "b"', 1), (
            failed['result'], failed['error'], failed['attempts']))
        self.assertRegex(failed['next_attempt_at'], r'^\d{4}-\d\d-\d\dT')
        self.assertEqual((None, []), (
            self.run_json('amphora', 'show', new)['generation'],
            self.run_json('amphora', 'show', new)['may_be_using']))
        self.assertFails('There is no amphora nobody with an agent',
                         'amphora', 'show', 'nobody')

    def test_generations(self):
        self.populate()
        generation_repo.publish(self.engine, 2, {LIST[0]: 0}, 'hm2 is gone',
                                'controller1', 'CANARY')
        rows = self.run_json('generation', 'list', '--long')
        self.assertEqual([(2, 'CANARY', 'hm2 is gone'),
                          (1, 'OPEN', 'because')], [
            (row['number'], row['status'], row['reason']) for row in rows])
        self.assertEqual([2], [row['number'] for row in self.run_json(
            'generation', 'list', '--limit', '1')])
        shown = self.run_json('generation', 'show', '1')
        self.assertEqual((list(LIST), [0, 1], 0), (
            shown['controller_ip_port_list'], shown['slots'],
            shown['wave']))
        self.assertFails('no generation 3', 'generation', 'show', '3')

    def test_run(self):
        self.populate()
        self.assertEqual(0, claim_repo.count_due(self.engine, 1))
        self.assertIn('3 amphorae would', self.run_ok('sync', 'run',
                                                      '--dry-run'))
        self.assertEqual(0, claim_repo.count_due(self.engine, 1))
        keeper_repo.touch(self.engine, 'controller1', ())
        self.assertIn('3 amphorae are uploaded to within some seconds',
                      self.run_ok('sync', 'run'))
        self.assertEqual(3, claim_repo.count_due(self.engine, 1))
        self.assertIn('0 amphorae are uploaded to', self.run_ok('sync',
                                                                'run'))

    def test_run_and_nobody_uploads(self):
        """It fails; but what was asked for is not lost."""
        self.populate()
        # Never, and not any more.
        for number in (3, 0):
            self.assertFails(
                f'has given a sign of life for 20 s: no uploads take place. '
                f'{number} amphorae wait for it, whenever it comes: start '
                f'octavia-housekeeping', 'sync', 'run')
            keeper_repo.touch(self.engine, 'controller1', ())
            self.make_older(models.HouseKeeper, 'keepalive_at', 21)
        self.assertEqual(3, claim_repo.count_due(self.engine, 1))
        self.assertFails('4 amphorae wait', 'sync', 'run', '--all')

    def test_run_again(self):
        self.populate()
        keeper_repo.touch(self.engine, 'controller1', ())
        self.assertIn('2 amphorae would', self.run_ok(
            'sync', 'run', '--amphora', *self.ids[:2], '--dry-run'))
        # However they are named, and however often.
        self.assertIn('2 amphorae would', self.run_ok(
            'sync', 'run', '--amphora', self.ids[0], '--amphora',
            *self.ids[:2], '--dry-run'))
        self.assertIn('2 amphorae are', self.run_ok(
            'sync', 'run', '--amphora', self.ids[0], '--amphora',
            self.ids[1]))
        self.assertEqual(2, claim_repo.count_due(self.engine, 1))
        new = self.records.add_amphora('192.0.2.9')
        self.assertIn('5 amphorae would',
                      self.run_ok('sync', 'run', '--all', '--dry-run'))
        self.run_ok('sync', 'run', '--all')
        self.assertEqual(5, claim_repo.count_due(self.engine, 1))
        claimed = {a.id: a.result for a in claim_repo.claim_due(
            self.engine, 1, 'batch', 10, 60)}
        self.assertEqual(dict.fromkeys([*self.ids, new]), claimed)
        # A batch works on them.
        self.assertIn('0 amphorae are', self.run_ok('sync', 'run', '--all'))
        self.assertFails('There is no amphora nobody with an agent', 'sync',
                         'run', '--amphora', self.ids[0], 'nobody')

    def test_status(self):
        self.populate()
        self.assertEqual({
            'generation': 1, 'status': 'OPEN', 'paused_until': None,
            'controller_ip_port_list': list(LIST), 'suspects': [],
            'blind_controllers': [], 'problems': [], 'untried': 0,
            'amphorae': 4, 'due': 3, 'applied': 1, 'unreachable': 1,
            'rejected': 1, 'unsupported': 1, 'other_key': 0, 'adopted': 0,
            'pending': 1, 'not_adopted': 0, 'unproven': 0,
        }, self.run_json('sync', 'status'))

    def test_blind_controllers(self):
        for host in ('good', 'blind'):
            uploader_repo.touch(self.engine, f'hk on {host}', 20)
        uploader_repo.set_overtaken(self.engine, 'hk on blind', 3)
        self.assertEqual(['hk on blind'], self.run_json(
            'sync', 'status')['blind_controllers'])

    def test_empty(self):
        self.assertEqual([], self.run_json('health', 'manager', 'list'))
        self.assertEqual([], self.run_json('amphora', 'list'))
        status = self.run_json('sync', 'status')
        self.assertIsNone(status['generation'])
        self.assertEqual((0, 0), (status['amphorae'], status['due']))

    def test_columns_chosen(self):
        self.populate()
        self.assertEqual('192.0.2.101\n2001:db8::1\n', self.run_ok(
            'health', 'manager', 'list', '-f', 'value', '-c', 'ip_address'))


class TestDatabaseCommands(base.CommandTestCase):

    def test_upgrade(self):
        self.drop_tables()
        head = schema.head()
        self.assertEqual({'revision': None, 'newest': head},
                         self.run_json('db', 'current'))
        self.assertIn(f'would be brought to revision {head} (now: none)',
                      self.run_ok('db', 'upgrade', '--dry-run'))
        self.assertIn(f'now at revision {head}',
                      self.run_ok('db', 'upgrade'))
        self.assertIn('already', self.run_ok('db', 'upgrade', '--dry-run'))
        self.assertIn('already', self.run_ok('db', 'upgrade'))
        self.assertEqual({'revision': head, 'newest': head},
                         self.run_json('db', 'current'))

    def test_upgrade_of_another_database(self):
        """A file that is made at the first connection, for example."""
        path = os.path.join(self.directory, 'other.db')
        self.write_conf(database={'connection': f'sqlite:///{path}'})
        for option in ([], ['--dry-run']):
            self.assertFails(
                f'The database sqlite:///{path} is not that of Octavia',
                'db', 'upgrade', *option)
        engine = schema.sa.create_engine(f'sqlite:///{path}')
        self.addCleanup(engine.dispose)
        self.assertEqual([], schema.sa.inspect(engine).get_table_names())

    def test_purge(self):
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'a', 20)
        self.addCleanup(schema.upgrade, self.database.engine)
        purge = ('db', 'purge')
        self.assertFails(
            'Services run with octavia-hmsync: octavia-health-manager on '
            'hm1. Restart them without it, wait 20 s', *purge, '--yes')
        self.make_older(models.HealthManager, 'keepalive_at', 21)
        self.assertFails('Nothing is deleted without --yes. It would delete '
                         '29 tables with 2 rows: hmsync_alembic_version, '
                         'hmsync_amphora, ', *purge)
        self.assertIn('Would delete 29 tables with 2 rows: ',
                      self.run_ok(*purge, '--dry-run', '--yes'))
        self.assertEqual('hm1', self.run_json('health', 'manager',
                                              'list')[0]['host'])
        self.assertIn('Deleted 29 tables: hmsync_alembic_version, ',
                      self.run_ok(*purge, '--yes'))
        for options in ([], ['--yes'], ['--dry-run'], ['--force']):
            self.assertEqual('There are no tables of octavia-hmsync in the '
                             'database.\n', self.run_ok(*purge, *options))
        self.assertFails('octavia-hmsync db upgrade', 'sync', 'status')

    def test_purge_while_services_run(self):
        keeper_repo.touch(self.engine, 'keeper1', ())
        self.addCleanup(schema.upgrade, self.database.engine)
        purge = ('db', 'purge', '--yes')
        self.assertFails('octavia-housekeeping on keeper1', *purge)
        self.assertFails('octavia-housekeeping on keeper1', *purge,
                         '--dry-run')
        self.assertIn('Deleted 29', self.run_ok(*purge, '--force'))

    def test_purge_while_there_are_clusters(self):
        self.addCleanup(schema.upgrade, self.database.engine)
        lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=lb_id))
        purge = ('db', 'purge', '--yes')
        self.assertFails('1 load balancers have clusters, which could not be '
                         'changed or deleted any more', *purge)
        out = self.run_ok(*purge, '--force')
        self.assertIn('Deleted 29', out)
        self.assertIn('have it: lb_topology ACTIVE_ACTIVE.\n', out)

    def test_history(self):
        rows = self.run_json('db', 'history')
        self.assertEqual([r for r, _ in schema.history()],
                         [row['revision'] for row in rows])


# What each command needs beside its name.
ARGUMENTS = {
    'host drain': ['host1'],
    'host hold': ['host1', '--until', '2026-11-29T15:30'],
    'host release': ['host1'],
    'zone drain': ['az1', '--until', '2026-11-29T15:30'],
    'zone release': ['az1'],
    'amphora show': ['nobody'],
    'cluster member drain': ['nobody'],
    'cluster member replace': ['nobody'],
    'cluster member undrain': ['nobody'],
    'cluster restore': ['nobody'],
    'cluster set': ['nobody', '--desired', '3'],
    'cluster show': ['nobody'],
    'distributor drain': ['nobody'],
    'distributor instance delete': ['nobody'],
    'distributor move': ['nobody'],
    'distributor resume': ['nobody'],
    'distributor show': ['nobody'],
    'generation show': ['1'],
    'health manager delete': ['nobody'],
    'health manager drain': ['nobody'],
    'health manager resume': ['nobody'],
    'health manager show': ['nobody'],
    'image exclusion add': ['tag', 'fragile', '--reason', 'because'],
    'image exclusion remove': ['tag', 'fragile'],
    'image replace': ['nobody'],
    'resize': ['nobody', '--no-flavor'],
    'rollout start': ['--image'],
    'image replacement cancel': ['nobody'],
    'image restore': ['nobody'],
    'network port delete': ['node1'],
    'sync run': ['--amphora', 'nobody'],
    'sync watch': ['--timeout', '0.1'],
}
# Those that do not need what is missing, or tell it in their own way.
WITHOUT_TABLES = ('db upgrade', 'db current', 'db history', 'db purge',
                  'upgrade check', 'image check', 'host list')
WITHOUT_DATABASE = ('db history', 'upgrade check', 'image check')
# A tenant's, who has neither octavia.conf nor a database; see
# tests/unit/image/clone.
OF_A_TENANT = 'image clone '


def all_commands(without):
    """All commands of an operator but some, as lists of arguments."""
    names = [point.name.replace('_', ' ') for point in
             metadata.entry_points(group='octavia_hmsync.cli')]
    return [[*name.split(), *ARGUMENTS.get(name, [])]
            for name in sorted(set(names))
            if name not in without and not name.startswith(OF_A_TENANT)]


class TestTrouble(base.CommandTestCase):

    def test_missing_tables(self):
        self.drop_tables()
        commands = all_commands(WITHOUT_TABLES)
        self.assertGreater(len(commands), 15)
        for command in commands:
            self.assertFails('octavia-hmsync db upgrade', *command)

    def set_revision(self, revision):
        with self.engine.begin() as connection:
            connection.execute(schema.sa.text(
                f"UPDATE {schema.VERSION_TABLE} "
                f"SET version_num = '{revision}'"))

    def test_newer_tables(self):
        self.set_revision('ffff')
        self.addCleanup(self.set_revision, schema.head())
        code, out, err = self.run_command('sync', 'status', '-f', 'json')
        self.assertEqual(0, code)
        self.assertIn('"due"', out)
        self.assertIn('newer release', err)
        self.assertFails('newer release', 'db', 'upgrade')
        self.assertFails('newer release', 'db', 'upgrade', '--dry-run')

    def test_unreachable_database(self):
        # With TLS a connection would read all authorities of the system.
        for url in ('mysql+pymysql://octavia:S3cret@127.0.0.1:1/octavia'
                    '?ssl_disabled=true',
                    'sqlite:////nonexistent/octavia.db?mode=memory'):
            self.write_conf(database={'connection': url})
            for command in all_commands(WITHOUT_DATABASE):
                self.assertFails('database', *command)

    def test_what_is_not_there(self):
        for command in all_commands(()):
            if 'nobody' in command:
                self.assertFails('nobody', *command)

    def test_database_url_that_cannot_be_used(self):
        for url in ('S3cret', 'nosuchdb://octavia:S3cret@127.0.0.1/octavia',
                    'mysql+nosuchdriver://octavia:S3cret@127.0.0.1/octavia',
                    'mysql+pymysql://octavia:S3cret@127.0.0.1:port/o'):
            self.write_conf(database={'connection': url})
            code, out, err = self.run_command('sync', 'status')
            self.assertEqual((1, '', 1), (code, out, err.count('\n')), err)
            self.assertIn('[database] connection', err)
            self.assertNotIn('S3cret', err)

    def test_no_database_url(self):
        self.write_conf(database={'connection': None})
        for command in all_commands(WITHOUT_DATABASE):
            self.assertFails(f'not set: {self.conf_path} was read', *command)

    def test_no_configuration_file(self):
        """Also one in a directory that the user may not look into."""
        home = self.useFixture(fixtures.TempDir()).path
        for command, code in ((('db', 'upgrade'), 1),
                              (('upgrade', 'check'), 2)):
            done = subprocess.run(
                [sys.executable, '-W', 'ignore', '-m',
                 'octavia_hmsync.cmd.hmsync', *command],
                env=process.environment(home), cwd=home, capture_output=True,
                text=True)
            self.assertEqual((code, ''), (done.returncode, done.stdout))
            self.assertEqual(
                '[database] connection is not set: no octavia.conf was '
                'found. Name octavia.conf with --config-file, and run this '
                'as a user who may read it.\n', done.stderr)

    def test_bad_options(self):
        for name, value in (('poll_interval', 'soon'), ('offline_after', 3),
                            ('claim_expiry', 5)):
            self.write_conf(hmsync={name: value})
            self.assertFails(name, 'sync', 'status')

    def test_bad_configuration_file(self):
        for text in ('no section', '[hmsync\n', '[hmsync]\nnothing\n'):
            with open(self.conf_path, 'w') as octavia_conf:
                octavia_conf.write(text)
            code, out, err = self.run_command('sync', 'status')
            self.assertEqual((1, ''), (code, out))
            self.assertIn('octavia.conf', err)
            self.assertNotIn('Traceback', err)

    def test_no_such_configuration_file(self):
        self.assertFails('/nonexistent.conf', 'sync', 'status',
                         '--config-file', '/nonexistent.conf', conf=False)

    def test_config_file_without_a_name(self):
        for argv in (['sync', 'status', '--config-file'], ['--config-dir'],
                     ['--config-file', '--debug', 'sync', 'status'],
                     ['sync', 'status', '--config-file', ''],
                     ['sync', 'status', '--config-dir=']):
            code, out, err = self.run_command(*argv, conf=False)
            self.assertEqual((2, ''), (code, out))
            self.assertRegex(err.splitlines()[-1], '^octavia-hmsync: error: '
                             'argument --config-(file|dir): expected ')
            self.assertNotIn('Traceback', err)

    def test_option_that_cannot_be_read(self):
        """The file and the value are named, and no Python object."""
        for group, option in (('hmsync', 'offline_after'),
                              ('database', 'connection_recycle_time'),
                              ('hmsync_network', 'api_timeout')):
            self.write_conf(**{group: {option: 'soon'}})
            if group == 'database':
                self.write_conf(database={
                    'connection': self.database.connection, option: 'soon'})
            _code, _out, err = self.run_command('sync', 'status')
            self.assertFails(f'option {option} from {self.conf_path} is not '
                             f'valid', 'sync', 'status')
            self.assertNotIn('LocationInfo', err)

    def test_no_command(self):
        code, out, err = self.run_command()
        self.assertEqual((2, ''), (code, err))
        self.assertIn('health manager drain', out)

    def test_unknown_command(self):
        for argv in (['amphora', 'fly'], ['health', 'manger', 'list'], ['x']):
            code, out, err = self.run_command(*argv)
            self.assertEqual((2, ''), (code, out), argv)
            self.assertIn(argv[0], err)
            self.assertNotIn('Traceback', err)


class TestOtherOctavia(base.CommandTestCase):
    """One that lacks what compat needs."""

    def test_missing_names(self):
        self.assertEqual(([], {}), symbols.find_problems())
        constants = symbols.importlib.import_module(
            'octavia.common.constants')
        self.patch(constants, 'ROLE_BACKUP', None)
        del constants.ROLE_BACKUP
        self.patch(sys, 'modules', {**sys.modules,
                                    'octavia.statistics.stats_base': None})
        self.assertEqual((['octavia.common.constants.ROLE_BACKUP',
                           'octavia.statistics.stats_base'], {}),
                         symbols.find_problems())

    def test_missing_package(self):
        """One that a module of Octavia should be in."""
        self.patch(sys, 'modules', {
            **{name: module for name, module in sys.modules.items()
               if not name.startswith('octavia.statistics')},
            'octavia.statistics': None})
        self.assertEqual((['octavia.statistics.stats_base'], {}),
                         symbols.find_problems())

    def run_in_process(self, argv, code, statements):
        """Run a command in a process that has not imported Octavia before.

        :param statements: what happens there first.
        :returns: the one line that it says.
        """
        done = subprocess.run(
            [sys.executable, '-c',
             f'import sys\n{statements}from octavia_hmsync.cmd import hmsync\n'
             f'sys.exit(hmsync.main({argv}))'],
            capture_output=True, text=True)
        self.assertEqual((code, '', 1), (
            done.returncode, done.stdout, done.stderr.count('\n')),
            done.stderr)
        return done.stderr

    def test_not_installed(self):
        for missing, argv, code, text in (
                ('octavia', ['sync', 'status'], 1,
                 'Octavia is not installed'),
                ('octavia', ['upgrade', 'check'], 2,
                 'Octavia is not installed'),
                ('cliff', ['--help'], 1,
                 'needs cliff, which is not installed here'),
                ('prettytable', ['upgrade', 'check'], 1,
                 'needs prettytable, which is not installed here')):
            said = self.run_in_process(
                argv, code, f'sys.modules["{missing}"] = None\n')
            self.assertIn(text, said)

    def test_broken_dependency(self):
        # What is missing, and what is there and does not fit.
        for argv, code, statement, reason in (
                (['upgrade', 'check'], 2, "sys.modules['jinja2'] = None",
                 'ModuleNotFoundError: import of jinja2 halted'),
                (['image', 'list'], 1, 'sys.meta_path.insert(0, Failing())',
                 'AttributeError: no such thing in jinja2')):
            said = self.run_in_process(argv, code, (
                'class Failing:\n'
                '    def find_spec(self, name, path, target=None):\n'
                '        if name == "jinja2":\n'
                '            raise AttributeError('
                '"no such thing in jinja2")\n'
                f'{statement}\n'))
            self.assertIn('The installed Octavia cannot be imported', said)
            self.assertIn('octavia.amphorae.backends.agent.agent_jinja_cfg',
                          said)
            self.assertIn(reason, said)
            self.assertNotIn('does not have', said)

    def test_one_line_from_each_command(self):
        for argv, code in ((['upgrade', 'check'], 2), (['sync', 'status'], 1)):
            said = self.run_in_process(
                argv, code, 'from octavia.common import constants\n'
                'del constants.ROLE_BACKUP\n')
            self.assertIn('octavia.common.constants.ROLE_BACKUP, which this '
                          'octavia-hmsync', said)


class TestInterrupted(base.CommandTestCase):

    def test_while_octavia_is_loaded(self):
        def check():
            raise KeyboardInterrupt()

        self.patch(symbols, 'check', check)
        self.assertEqual((130, '', ''), self.run_command('image', 'list'))

    def test_nobody_reads(self):
        """As with "| head", also of what is written at the very end."""
        env = {name: value for name, value in os.environ.items()
               if name != 'PYTHONUNBUFFERED'}
        for argv in (['sync', 'status'], ['db', 'history'],
                     ['upgrade', 'check']):
            reader, writer = os.pipe()
            os.close(reader)
            with open(writer, 'w') as closed:
                done = subprocess.run(
                    [sys.executable, '-m', 'octavia_hmsync.cmd.hmsync',
                     '--config-file', self.conf_path, *argv], stdout=closed,
                    stderr=subprocess.PIPE, text=True, env=env)
            self.assertEqual((141, ''), (done.returncode, done.stderr))

    def test_disk_is_full(self):
        """Python itself would end with 120 and two tracebacks."""
        env = {name: value for name, value in os.environ.items()
               if name != 'PYTHONUNBUFFERED'}
        for argv in (['sync', 'status'], ['db', 'history']):
            with open('/dev/full', 'w') as full:
                done = subprocess.run(
                    [sys.executable, '-m', 'octavia_hmsync.cmd.hmsync',
                     '--config-file', self.conf_path, *argv], stdout=full,
                    stderr=subprocess.PIPE, text=True, env=env)
            self.assertEqual(
                (1, 'The output cannot be written: [Errno 28] No space left '
                    'on device\n'), (done.returncode, done.stderr))


class TestConfigFile(base.CommandTestCase):

    def test_anywhere(self):
        for argv in (
                ['--config-file', self.conf_path, 'sync', 'status'],
                ['sync', '--config-file', self.conf_path, 'status'],
                ['sync', 'status', '--config-file', self.conf_path],
                ['sync', 'status', f'--config-file={self.conf_path}'],
                ['sync', 'status', '-f', 'value', '--config-dir',
                 self.directory]):
            self.assertNotEqual('', self.run_ok(*argv, conf=False))

    def test_in_the_help(self):
        for argv in (['--help'], ['help'], []):
            _code, out, _err = self.run_command(*argv, conf=False)
            self.assertIn('--config-file <file>', out)
            self.assertIn('--config-dir <dir>', out)

    def test_abbreviations_are_the_commands(self):
        """--qu is none of --quiet, nor --co of --config-file."""
        self.assertIn('"id"', self.run_ok('amphora', 'list', '-f', 'csv',
                                          '--qu', 'all'))
        self.assertEqual('due\n0\n', self.run_ok(
            'sync', 'status', '--co', 'due', '-f', 'csv'))

    def test_the_last_one_wins(self):
        other = self.conf_path + '.d'
        with open(other, 'w') as octavia_conf:
            octavia_conf.write('[hmsync]\noffline_after = 1\n')
        self.assertFails('offline_after', 'sync', 'status', '--config-file',
                         self.conf_path, '--config-file', other, conf=False)

    def test_help_and_version_need_no_configuration(self):
        for argv in (['--help'], ['--version'], ['help', 'sync', 'status']):
            self.assertNotEqual('', self.run_ok(*argv, conf=False))

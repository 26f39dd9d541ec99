# SPDX-License-Identifier: Apache-2.0

"""Looking at amphorae page by page."""

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import amphora_page as page_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.rules import timing
from tests.cloud import records
from tests.db_cases import base

LIST = ('192.0.2.101:5555', '[2001:db8::1]:5555', '192.0.2.1:5555')


class AmphoraPageCases(base.DatabaseTestCase):

    def page(self, after=None, limit=None, **wanted):
        return [row.id for row in page_repo.get_page(
            self.engine, page_repo.Wanted(**wanted), after, limit)]

    def upload(self, results):
        """Let attempts end so, {amphora id: result}."""
        amphora_repo.add_missing(self.engine)
        claim_repo.claim_due(self.engine, 1, 'batch', 1000, 60)
        outcome_repo.record(self.engine, 1, 'batch', [
            outcome_repo.Outcome(amphora_id, result, LIST, '', 10)
            for amphora_id, result in results.items()])

    def test_pages(self):
        """Each amphora once, also where some come and go in between."""
        ids = sorted(self.add_amphorae(7))
        self.add_amphorae(2, status='DELETED')
        self.records.add_amphora(None)
        self.assertEqual(ids, self.page())
        first = self.page(limit=3)
        self.assertEqual(ids[:3], first)
        self.records.set_status(ids[2], 'DELETED')
        self.records.set_status(ids[0], 'DELETED')
        self.records.add_amphora('192.0.2.9', amphora_id=f'!{ids[0][1:]}')
        second = self.page(first[-1], 3)
        self.assertEqual(ids[3:6], second)
        self.assertEqual(ids[6:], self.page(second[-1], 3))
        self.assertEqual([], self.page(ids[-1], 3))

    def test_the_database_pages(self):
        """What is not shown is not read."""
        self.add_amphorae(20)
        with self.count_statements() as statements:
            self.page('', 5)
        self.assertEqual(1, len(statements))
        self.assertIn('LIMIT', statements[0])
        self.assertIn('ORDER BY', statements[0])

    def test_of_some_ids(self):
        """More of them than go into a statement."""
        ids = [records.new_id() for _ in range(1200)]
        self.records.insert_all({'amphora': [
            records.amphora_row(amphora_id, '192.0.2.1')
            for amphora_id in ids]})
        ids.sort()
        wanted = ids[::2]
        self.assertEqual(wanted, self.page(ids=set(wanted) | {'nobody'}))
        self.assertEqual(wanted[510:590], self.page(
            wanted[509], 80, ids=wanted))
        self.assertEqual([], self.page(ids=[]))

    def test_of_one_kind(self):
        lb = self.records.add_load_balancer()
        master, backup = (self.records.add_amphora(
            '192.0.2.8', lb, role=role) for role in ('MASTER', 'BACKUP'))
        alone, broken = self.add_amphorae(2)
        self.records.set_status(broken, 'ERROR')
        self.upload({master: 'APPLIED', backup: 'UNREACHABLE',
                     alone: 'UNREACHABLE'})
        for wanted, expected in (
                ({'load_balancer_id': lb}, {master, backup}),
                ({'role': 'STANDALONE'}, {alone, broken}),
                ({'status': 'ERROR'}, {broken}),
                ({'result': 'UNREACHABLE'}, {backup, alone}),
                ({'result': 'UNREACHABLE', 'role': 'BACKUP'}, {backup}),
                ({'ids': [alone, master], 'role': 'MASTER'}, {master}),
                ({'load_balancer_id': 'none'}, set())):
            self.assertEqual(expected, set(self.page(**wanted)), wanted)

    def test_of_an_address(self):
        """All of it, and nothing that a LIKE takes for something else."""
        ids = self.add_amphorae(2)
        self.upload({ids[0]: 'APPLIED'})
        for address in LIST:
            self.assertEqual(ids[:1], self.page(address=address))
        for address in ('192.0.2.10:5555', '2.0.2.101:5555', '2.101:5555',
                        '192.0.2._:5555', '%', '', '192.0.2.1:555'):
            self.assertEqual([], self.page(address=address), address)

    def test_known_or_not(self):
        gone, = self.add_amphorae(1, status='DELETED')
        self.assertTrue(page_repo.exists(self.engine, gone))
        self.assertFalse(page_repo.exists(self.engine, 'nobody'))

    def test_load_balancers(self):
        """Two of one name, and one whose name is another one's id."""
        ids = [f'aaaaaaaa-{n}' for n in (1, 2)]
        for load_balancer_id in (*ids, 'bbbbbbbb'):
            self.records.add_load_balancer(load_balancer_id=load_balancer_id)

        def find(name):
            return page_repo.find_load_balancers(self.engine, name)

        self.assertEqual(ids, find('lb-aaaaaaaa'))
        self.assertEqual(ids[1:], find(ids[1]))
        self.assertEqual(['bbbbbbbb'], find('lb-bbbbbbbb'))
        self.assertEqual([], find('aaaaaaaa'))
        table = self.records.tables['load_balancer']
        with self.engine.begin() as connection:
            connection.execute(table.update().where(
                table.c.id == 'bbbbbbbb').values(name=ids[0]))
            connection.execute(table.update().where(
                table.c.id == ids[1]).values(provisioning_status='DELETED'))
        self.assertEqual(ids[:1], find(ids[0]))
        self.assertEqual(ids[:1], find('lb-aaaaaaaa'))
        self.assertEqual([], find(ids[1]))
        # One that is deleted has its name still; one has none.
        self.assertEqual({ids[1]: 'lb-aaaaaaaa', 'bbbbbbbb': ids[0]},
                         page_repo.get_load_balancer_names(
                             self.engine, [ids[1], 'bbbbbbbb', 'gone']))

    def test_judged_as_all_are(self):
        ids = self.add_amphorae(4)
        self.upload(dict.fromkeys(ids[:3], 'APPLIED'))
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(
                self.engine, amphora_id=ids[0]), LIST[0])
        self.make_older(models.Amphora, 'applied_at', 3600,
                        amphora_id=ids[1])
        arguments = (hm_repo.get_all(self.engine),
                     timing.Settings.from_conf(self.conf))
        judged = doubt_repo.judge_all(self.engine, *arguments)
        self.assertEqual(set(ids[:3]), set(judged))
        rows = page_repo.get_page(self.engine, page_repo.Wanted())
        self.assertEqual(judged, doubt_repo.judge_page(self.engine, rows,
                                                       *arguments))
        rows = [row for row in rows if row.id in ids[1:2]]
        self.assertEqual(
            {ids[1]: judged[ids[1]]},
            doubt_repo.judge_page(self.engine, rows, *arguments))

# SPDX-License-Identifier: Apache-2.0

"""Amphorae that a replacement has in hand, and the list."""

import datetime
import uuid

import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.db import models
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import phases
from octavia_hmsync.network.db import used_lists as used_repo
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import amphora_page as page_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import progress as progress_repo
from octavia_hmsync.sync.db import replaced as replaced_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from tests.cloud import records
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.sync import amphora

OLD, NEW = 'old', 'new'
# Whom the list leaves alone, in each phase.
IN_HAND = {
    'LOCK': {NEW}, 'BUILD': {NEW}, 'PROVE': {NEW}, 'SWITCH': {OLD, NEW},
    'PROVE_SWITCHED': {OLD, NEW}, 'DELETE_OLD': {OLD}, 'UNLOCK': {OLD},
    'BACK': {NEW}, 'ASK': {NEW}, 'FAILOVER': {OLD},
    'ORDER': set(), None: {NEW}}
LONG = 1000


class ReplacedCases(amphora.AmphoraCases):

    def setUp(self):
        super().setUp()
        generation_repo.publish(self.engine, 1, dict(
            zip(amphora.LIST, range(2))), 'because', 'controller1')
        self.make_older(models.Generation, 'published_at', LONG)
        ids = self.add(2)
        self.ids = dict(zip((OLD, NEW), ids))
        self.names = dict(zip(ids, (OLD, NEW)))

    def replace(self, phase, state='RUNNING', lb_id='lb', cause='IMAGE',
                cause_value=None, **amphorae):
        """Have a replacement of a load balancer, in a phase."""
        table = models.ImageReplacement.__table__
        with self.engine.begin() as connection:
            connection.execute(sa.delete(table))
        replace_repo.add(self.engine, replace_repo.New(
            'replacement', lb_id, 'replace', 'image', cause=cause,
            cause_value=cause_value))
        claimed, = claims_repo.claim(self.engine, 'one', 1, LONG)
        claims_repo.set_phase(
            self.engine, claimed.id, 'one', LONG, phase,
            **amphorae or {'old_amphora_id': self.ids[OLD],
                           'new_amphora_id': self.ids[NEW]})
        if state != 'RUNNING':
            claims_repo.finish(self.engine, claimed.id, 'one', state)

    def named(self, amphora_ids):
        return {self.names[amphora_id] for amphora_id in amphora_ids}

    def claim_some(self):
        """Return who is uploaded to, and have it as before."""
        claimed = claim_repo.claim_due(self.engine, 1, 'batch', 10, 60)
        claim_repo.give_back(self.engine, 'batch')
        return self.named(a.id for a in claimed)

    def test_each_phase(self):
        """Who is in hand; the words are those of the rules."""
        for phase in (None, *phases.Phase):
            self.replace(phase)
            left = {OLD, NEW} - IN_HAND[phase]
            with self.subTest(phase=phase):
                self.assertEqual(left, self.claim_some())
                self.assertEqual(len(left), claim_repo.count_due(
                    self.engine, 1))
                self.assertEqual(bool(left), claim_repo.is_due(
                    self.engine, 1))
        self.assertLessEqual({*replaced_repo.OLD_GOES_IN,
                              *replaced_repo.NEW_SERVES_IN},
                             set(phases.Phase))

    def test_change_of_topology(self):
        """All of its load balancer, until it has the other topology."""
        lb_id = self.records.add_load_balancer()
        mates = set(self.names)
        for name, role in ((OLD, 'STANDALONE'), (NEW, 'MASTER')):
            self.records.change('amphora', self.ids[name], role=role,
                                load_balancer_id=lb_id)
        old = {self.ids[OLD]}
        for phase, beside in (
                ('LOCK', set()), ('BUILD', mates), ('PROVE_SWITCHED', mates),
                ('BACK', mates), ('DELETE_OLD', old), ('UNLOCK', old)):
            self.replace(phase, lb_id=lb_id, cause='TOPOLOGY',
                         cause_value='ACTIVE_STANDBY', old_amphora_id=None)
            self.assertEqual({OLD, NEW} - self.named(beside),
                             self.claim_some(), phase)
        self.replace('BUILD', lb_id=lb_id, old_amphora_id=None)
        self.assertEqual({OLD, NEW}, self.claim_some())

    def test_states(self):
        """As soon as it ends, however it ends."""
        for state in ('DONE', 'FAILED', 'SKIPPED'):
            self.replace('SWITCH', state)
            self.assertEqual({OLD, NEW}, self.claim_some())

    def test_one_that_waits(self):
        """Nothing of it has begun."""
        replace_repo.add(self.engine, replace_repo.New(
            'replacement', 'lb', 'replace', 'image'))
        self.assertEqual({OLD, NEW}, self.claim_some())

    def test_amphorae_not_known_yet(self):
        self.replace('BUILD', old_amphora_id=self.ids[OLD])
        self.assertEqual({OLD, NEW}, self.claim_some())
        self.replace('SWITCH', new_amphora_id=self.ids[NEW])
        self.assertEqual({OLD}, self.claim_some())

    def test_claimed_when_it_begins(self):
        """Found due, and in hand by the time of the claim: given back."""
        found = claim_repo._find_due

        def find(*args):
            due = found(*args)
            self.replace('SWITCH')
            return due

        self.patch(claim_repo, '_find_due', find)
        self.assertEqual([], claim_repo.claim_due(
            self.engine, 1, 'batch', 10, 60))
        self.assertEqual({(None, None)}, {
            (row.claim_owner, row.claim_expires_at)
            for row in self.rows(models.Amphora)})

    def test_nothing_waits_for_them(self):
        """What is left to do, how old that is, and what has failed."""
        self.claim()
        self.record(self.ids[OLD], 'UNREACHABLE')
        claim_repo.give_back(self.engine, 'batch1')
        self.set_created_before(LONG)
        counts = amphora_repo.count(self.engine, 1)
        self.assertEqual((2, 2, {'UNREACHABLE': 1}), (
            counts.amphorae, counts.due, counts.results))
        self.assertTrue(amphora_repo.is_any_behind(self.engine, 1))
        self.assertAlmostEqual(
            LONG, progress_repo.get_oldest_age(self.engine), delta=30)
        self.assertEqual(1, len(progress_repo.get_failed(
            self.engine, 1, 10)))
        self.replace('SWITCH')
        counts = amphora_repo.count(self.engine, 1)
        self.assertEqual((0, 0, {}), (
            counts.amphorae, counts.due, counts.results))
        self.assertFalse(amphora_repo.is_any_behind(self.engine, 1))
        self.assertEqual(0, progress_repo.get_oldest_age(self.engine))
        self.assertEqual([], progress_repo.get_failed(self.engine, 1, 10))
        self.assertEqual(progress_repo.Progress(0, 0, 0, 0, 0),
                         progress_repo.get_progress(self.engine, 1))

    def set_created_before(self, seconds):
        table = self.records.tables['amphora']
        with self.engine.begin() as connection:
            connection.execute(sa.update(table).values(
                created_at=records.utcnow() -
                datetime.timedelta(seconds=seconds)))

    def test_uploaded_to_once_more(self):
        self.claim()
        self.record(self.ids[OLD])
        claim_repo.give_back(self.engine, 'batch1')
        claim_repo.upload_again(self.engine, list(self.names))
        self.assertEqual([self.ids[OLD]], progress_repo.get_again(self.engine))
        self.replace('SWITCH')
        self.assertEqual([], progress_repo.get_again(self.engine))

    def test_still_seen(self):
        """Who looks at all amphorae sees them, and where they send."""
        self.replace('SWITCH')
        self.assertEqual({OLD, NEW}, self.named(
            row.id for row in amphora_repo.get_rows(self.engine)))
        self.assertEqual({OLD, NEW}, self.named(
            row.id for row in page_repo.get_page(
                self.engine, page_repo.Wanted())))
        self.assertEqual({OLD, NEW}, self.named(
            used_repo.get_senders(self.engine)))
        self.assertEqual(2, amphora_repo.count_other_key(
            self.engine, 'digest'))

    def test_wanted(self):
        gone = str(uuid.uuid4())
        both = {*self.names, gone}
        self.assertEqual(set(self.names), amphora_repo.find_wanted(
            self.engine, both))
        self.replace('DELETE_OLD')
        self.assertEqual({self.ids[NEW]}, amphora_repo.find_wanted(
            self.engine, both))
        self.records.set_status(self.ids[NEW], 'DELETED')
        self.assertEqual(set(), amphora_repo.find_wanted(self.engine, both))

    # A list on trial

    def test_not_one_of_the_first(self):
        for amphora_id in self.names:
            self.records.set_health(amphora_id, age=5)

        def candidates():
            return self.named(c.amphora_id for c in
                              admission_repo.get_candidates(self.engine, 1))

        self.assertEqual({OLD, NEW}, candidates())
        self.replace('PROVE')
        self.assertEqual({OLD}, candidates())
        self.replace('SWITCH')
        self.assertEqual(set(), candidates())

    def test_no_witness(self):
        """One that got the list first, and is then replaced."""
        admission_repo.admit(self.engine, 1, [self.ids[OLD]])

        def admitted():
            return self.named(a.amphora_id for a in
                              admission_repo.get_admitted(self.engine, 1))

        self.replace('PROVE')
        self.assertEqual({OLD}, admitted())
        for phase in replaced_repo.OLD_GOES_IN:
            self.replace(phase)
            self.assertEqual(set(), admitted())
        self.replace('BACK')
        self.assertEqual({OLD}, admitted())

    # Members of clusters

    def test_member_that_is_built(self):
        """It has booted with the list, and is told more when it serves."""
        cluster_repo.add(self.engine, cluster_calls.new())
        for name, amphora_id in self.ids.items():
            member_repo.add(self.engine, 'cluster1', name, 2)
            member_repo.assign_amphora(self.engine, name, amphora_id)
        self.assertEqual(set(), self.claim_some())
        for state in ('STANDBY', 'ACTIVE', 'DRAINING', 'FAILED'):
            member_repo.set_state(self.engine, OLD, member_repo.STATES,
                                  state)
            self.assertEqual({OLD}, self.claim_some())

    # Silence

    def test_its_silence_says_nothing(self):
        for amphora_id in self.names:
            self.records.set_health(amphora_id, age=LONG)
        before = records.utcnow() - datetime.timedelta(seconds=60)

        def silent(**which):
            return self.named(row.id for row in hold_repo.find_silent(
                self.engine, before, **which))

        self.assertEqual({OLD, NEW}, silent())
        for phase in phases.Phase:
            self.replace(phase)
            with self.subTest(phase=phase):
                self.assertEqual({OLD, NEW} - IN_HAND[phase], silent())
                self.assertEqual({OLD, NEW} - IN_HAND[phase],
                                 silent(amphora_ids=list(self.names)))

    def test_nobody_asks_its_agent_for_the_way(self):
        """An agent that is gone does not tell whether others are reached."""
        self.claim()
        for amphora_id in self.names:
            self.record(amphora_id)
        self.assertEqual(2, len(uploader_repo.get_reachable(
            self.engine, 'somebody')))
        self.replace('SWITCH')
        self.assertEqual({}, uploader_repo.get_reachable(self.engine,
                                                         'somebody'))

    # Many

    def test_one_statement(self):
        self.replace('SWITCH')
        for function, args in (
                (amphora_repo.count, (1,)), (claim_repo.is_due, (1,)),
                (claim_repo.count_due, (1,)),
                (amphora_repo.is_any_behind, (1,)),
                (progress_repo.get_progress, (1,)),
                (amphora_repo.find_wanted, (list(self.names),)),
                (admission_repo.get_admitted, (1,))):
            with self.count_statements() as statements:
                function(self.engine, *args)
            self.assertEqual(1, len(statements), function)

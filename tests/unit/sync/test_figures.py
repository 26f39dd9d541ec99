# SPDX-License-Identifier: Apache-2.0

import datetime

import fixtures
import prometheus_client

from octavia_hmsync.db import models
from octavia_hmsync.metrics import reading
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync import figures
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import trial
from tests.cloud import certificates
from tests.cloud import records
from tests.db_cases import base
from tests.unit.db import sqlite

KEY = 'do-not-tell'
LIST = ('192.0.2.101:5555', '192.0.2.102:5555')
SLOTS = dict(zip(LIST, (0, 1)))


class FleetTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.conf = self.make_conf(
            DEFAULT={'host': 'hm1'}, health_manager={'heartbeat_key': KEY})
        self.subject = figures.Fleet(self.conf, self.engine, lambda: self.now)

    def register(self, number, key=KEY):
        hm_repo.register(self.engine, f'hm{number}', f'192.0.2.10{number}',
                         5555, f'i{number}', 20, heartbeat_key.digest(key))

    def values(self, subject=None):
        """Each sample: {(name, label value or None): value}."""
        found = {}
        for family in (subject or self.subject).read():
            for sample in family.samples:
                label, = sample.labels.values() or (None,)
                name = sample.name.removeprefix(reading.PREFIX)
                found[name, label] = sample.value
        return found

    def assertValues(self, subject=None, **expected):
        """What is expected of each name: a number, or {label: number}."""
        values = self.values(subject)
        for name, value in expected.items():
            found = {label: v for (n, label), v in values.items()
                     if n == name and (label is None or v)}
            self.assertEqual(value if isinstance(value, dict) else
                             {None: value}, found, name)


class TestFleet(FleetTestCase):

    def publish(self, number=1, status=trial.OPEN):
        generation_repo.publish(self.engine, number, SLOTS, 'because', 'hk',
                                status)

    def test_empty(self):
        self.assertValues(
            generation_number=0, published_addresses=0, health_managers={},
            generation_status={}, generation_age_seconds={},
            generation_completed={}, last_roll_back_age_seconds={},
            amphorae=0, due_amphorae=0, oldest_due_age_seconds=0,
            uploads_paused=0, suspect_addresses=0)
        # A status that nobody has is 0, and not absent.
        self.assertEqual(0, self.values()['health_managers', 'OFFLINE'])

    def test_health_managers(self):
        for number in (1, 2, 3, 4):
            self.register(number)
        self.make_older(models.HealthManager, 'keepalive_at', 21, host='hm2')
        hm_repo.change_status(self.engine, 'hm3', 'ONLINE', 'DRAINING')
        hm_repo.set_offline(self.engine, 'hm4', 'i4')
        keeper_repo.touch(self.engine, 'hk', ['192.0.2.9:5555'])
        for number in (1, 3):
            hm_repo.set_late(self.engine, f'hm{number}', f'i{number}')
        self.make_older(models.HealthManager, 'late_at', 61, host='hm3')
        self.assertValues(
            overloaded_health_managers=1)
        self.assertValues(
            health_managers={'ONLINE': 1, 'DRAINING': 1, 'OFFLINE': 2},
            silent_health_managers=1, pinned_addresses=1,
            heartbeat_key_mismatches=0)

    def test_other_key(self):
        self.register(1)
        self.register(2, 'another')
        self.assertValues(heartbeat_key_mismatches=1)

    def test_generation(self):
        self.publish()
        self.publish(2, trial.CANARY)
        self.assertValues(
            generation_number=2, generation_status={'CANARY': 1},
            generation_completed=0, published_addresses=2)
        self.make_older(models.Generation, 'published_at', 600)
        self.assertAlmostEqual(
            600, self.values()['generation_age_seconds', None], delta=5)
        generation_repo.roll_back(self.engine, 2, LIST[:1], {LIST[1]: 1},
                                  'bad', 'hk')
        self.assertValues(
            generation_number=3, generation_status={'OPEN': 1},
            suspect_addresses=1, published_addresses=1)
        self.assertAlmostEqual(
            0, self.values()['last_roll_back_age_seconds', None], delta=5)
        generation_repo.set_completed(self.engine, 3)
        self.assertValues(generation_completed=1)

    def test_housekeeper_that_uploads_nothing(self):
        keeper_repo.touch(self.engine, 'good', ())
        keeper_repo.touch(self.engine, 'stuck', (), problem='no file')
        self.assertValues(house_keeper_stuck={'stuck': 1})
        self.assertEqual(0, self.values()['house_keeper_stuck', 'good'])

    def test_blind_controller(self):
        for host in ('good', 'blind', 'gone'):
            uploader_repo.touch(self.engine, host, 20)
        self.make_older(models.Uploader, 'keepalive_at', 21, name='gone')
        uploader_repo.set_overtaken(self.engine, 'blind', 3)
        found = {label: value for (name, label), value in
                 self.values().items() if name == 'uploader_blind'}
        self.assertEqual({'good': 0, 'blind': 1}, found)

    def test_pause(self):
        pause_repo.begin(self.engine, 60, 'because')
        self.assertValues(uploads_paused=1)

    def record(self, ids, result):
        claim_repo.claim_due(self.engine, 1, 'batch', 10, 60)
        outcome_repo.record(self.engine, 1, 'batch', [outcome_repo.Outcome(
            amphora_id, result, LIST,
            *(() if result == 'APPLIED' else ('error', 10)))
            for amphora_id in ids])

    def test_amphorae(self):
        self.register(1)
        self.publish()
        ids = self.add_amphorae(6)
        gone = self.add_amphorae(2)
        amphora_repo.add_missing(self.engine)
        self.record([*ids[:4], *gone], 'APPLIED')
        self.record(ids[4:5], 'REJECTED')
        unproven = {row.amphora_id: row for row in
                    doubt_repo.get_unproven(self.engine)}
        doubt_repo.set_adopted(
            self.engine, [unproven[ids[0]], unproven[gone[0]]])
        for amphora_id in gone:
            self.records.set_status(amphora_id, 'DELETED')
        self.assertValues(
            amphorae=6, due_amphorae=2,
            amphorae_by_result={'APPLIED': 4, 'REJECTED': 1, 'NONE': 1},
            amphorae_by_adoption={'ADOPTED': 1, 'PENDING': 3})
        self.make_older(models.Amphora, 'applied_at', 100000,
                        result='APPLIED')
        self.assertValues(
            amphorae_by_adoption={'ADOPTED': 1, 'UNPROVEN': 3},
            amphora_certificates_ending=0)
        for amphora_id in (*ids[:2], *gone):
            self.records.change('amphora', amphora_id,
                                cert_expiration=records.utcnow())
        self.assertValues(amphora_certificates_ending=2)

    def test_certificates(self):
        """The first one of an amphora, and those of files."""
        name = 'certificate_ends_timestamp_seconds'
        self.assertValues(**{name: {}})
        ends = (datetime.datetime(2030, 1, 2), datetime.datetime(2030, 1, 1),
                None)
        for amphora_id, end in zip(self.add_amphorae(3), ends, strict=True):
            self.records.change('amphora', amphora_id, cert_expiration=end)
        made = self.useFixture(certificates.Certificates(
            self.useFixture(fixtures.TempDir()).path))
        self.conf.set_override('client_cert', made.client_path,
                               'haproxy_amphora')
        self.conf.set_override(
            'server_ca', made.server_authority.certificate_path,
            'haproxy_amphora')
        for option in ('distributor_client_cert', 'distributor_ca'):
            self.conf.set_override(
                option, made.server_authority.certificate_path,
                'hmsync_cluster')
        found = {certificate: value for (each, certificate), value in
                 self.values().items() if each == name}
        # 2030-01-01 in UTC.
        self.assertEqual(1893456000, found.pop('amphora'))
        end = records.utcnow() + datetime.timedelta(days=certificates.DAYS)
        for option in ('client_cert', 'server_ca', 'distributor_client_cert',
                       'distributor_ca'):
            self.assertAlmostEqual(
                end.replace(tzinfo=datetime.timezone.utc).timestamp(),
                found.pop(option), delta=3600)
        self.assertEqual({}, found)

    def test_upload_once_more_is_due_since_it_was_seen(self):
        self.publish()
        ids = self.add_amphorae(2)
        amphora_repo.add_missing(self.engine)
        self.record(ids, 'APPLIED')
        self.assertValues(oldest_due_age_seconds=0)
        claim_repo.upload_again(self.engine, ids[:1])
        self.assertValues(oldest_due_age_seconds=0)
        self.now += 50
        self.assertValues(oldest_due_age_seconds=50)
        self.record(ids[:1], 'APPLIED')
        self.assertValues(oldest_due_age_seconds=0)
        claim_repo.upload_again(self.engine, ids[:1])
        self.assertValues(oldest_due_age_seconds=0)

    def test_nothing_secret_and_no_amphora_by_name(self):
        log = self.useFixture(fixtures.FakeLogger(level=0))
        self.register(1)
        self.register(2, 'another')
        self.publish()
        ids = self.add_amphorae(2)
        registry = prometheus_client.CollectorRegistry()
        subject = reading.DatabaseReading(self.subject.read, 10)
        registry.register(subject)
        subject.run_once()
        text = prometheus_client.generate_latest(registry).decode()
        self.assertIn('heartbeat_key_mismatches 1.0', text)
        for word in (KEY, heartbeat_key.digest(KEY), *ids):
            self.assertNotIn(word, text + log.output)


class TestHealthManager(FleetTestCase):

    def test_status(self):
        subject = figures.HealthManager(self.conf, self.engine, 'i1')
        self.register(2)
        self.assertValues(subject, health_manager_status={'ABSENT': 1})
        self.register(1)
        self.assertValues(subject, health_manager_status={'ONLINE': 1})
        hm_repo.change_status(self.engine, 'hm1', 'ONLINE', 'DRAINING')
        self.assertValues(subject, health_manager_status={'DRAINING': 1})
        self.make_older(models.HealthManager, 'keepalive_at', 21, host='hm1')
        self.assertValues(subject, health_manager_status={'OFFLINE': 1})

    def test_status_of_another_process(self):
        self.register(1)
        self.assertValues(figures.HealthManager(
            self.conf, self.engine, 'another'),
            health_manager_status={'ABSENT': 1})

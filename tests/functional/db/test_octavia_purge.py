# SPDX-License-Identifier: Apache-2.0

import fixtures
from octavia.common import config
from octavia.controller.housekeeping import house_keeping
from octavia.db import api as octavia_db_api
from octavia.db import models as octavia_models
from oslo_config import fixture as config_fixture
from sqlalchemy import orm

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from tests.db_cases import base
from tests.functional.db import mariadb


class TestOctaviaPurge(mariadb.MariaDBMixin, base.DatabaseTestCase):
    """What Octavia does to its rows is not hindered by ours."""

    def setUp(self):
        super().setUp()
        session = orm.sessionmaker(bind=self.database.engine)
        self.useFixture(fixtures.MonkeyPatch(
            'octavia.db.api.get_session', session))
        self.assertIs(session, octavia_db_api.get_session)
        conf = self.useFixture(config_fixture.Config(config.cfg.CONF))
        conf.config(group='house_keeping', amphora_expiry_age=3600)

    def test_amphorae_that_are_expired(self):
        kept, expired = self.add_amphorae(2)
        amphora_repo.add_missing(self.engine)
        for amphora_id in (kept, expired):
            self.records.set_health(amphora_id, age=4000)
        self.records.set_status(expired, 'DELETED')
        amphora = self.records.tables['amphora']
        with self.engine.begin() as connection:
            connection.execute(
                amphora.update().where(amphora.c.id == expired)
                .values(updated_at='2026-01-01'))
        house_keeping.DatabaseCleanup().delete_old_amphorae()
        self.assertEqual([kept], [
            row['id'] for row in self.records.rows('amphora')])
        self.assertEqual(1, amphora_repo.delete_gone(self.engine))
        self.assertEqual([kept], [
            row.amphora_id for row in self.rows(models.Amphora)])

    def test_octavia_reads_its_amphorae(self):
        """to_data_model walks relationships; ours must not be among them."""
        amphora_id, = self.add_amphorae(1)
        amphora_repo.add_missing(self.engine)
        with octavia_db_api.get_session() as session:
            amphora = session.get(octavia_models.Amphora, amphora_id)
            self.assertEqual(amphora_id, amphora.to_data_model().id)

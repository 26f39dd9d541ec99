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

"""octavia-hmsync upgrade check."""

import sqlalchemy as sa

from octavia_hmsync.amphora import heartbeat_key
from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import claim as claim_repo
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.db.repositories import house_keeper as keeper_repo
from octavia_hmsync.db.repositories import outcome as outcome_repo
from octavia_hmsync.db.repositories import uploader as uploader_repo
from octavia_hmsync import version
from tests.unit.cli import base

KEY = 'S3cret'
GOOD = {
    'DEFAULT': {'config_source': 'hmsync'},
    'hmsync': {'driver': 'octavia_hmsync', 'allow_loopback': True},
    'controller_worker': {'statistics_drivers': 'stats_db, hmsync'},
    'health_manager': {'bind_ip': '127.0.0.1', 'heartbeat_key': KEY},
}


class TestCheck(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.register()
        keeper_repo.touch(self.engine, 'keeper1', ())

    def register(self, host='hm1', number=1, key=KEY, is_observing=True,
                 release=version.version_string()):
        hm_repo.register(self.engine, host, f'192.0.2.{number}', 5555, host,
                         20, heartbeat_key.digest(key),
                         is_observing=is_observing, plugin_version=release)

    def check(self, code, *words, **groups):
        """Run it with an octavia.conf that is good but for these groups."""
        self.conf_path = self.write_conf(**{
            group: {**GOOD.get(group, {}), **groups.get(group, {})}
            for group in {*GOOD, *groups}})
        found, out, err = self.run_command('upgrade', 'check')
        # The text is wrapped in a table.
        text = ' '.join(out.replace('|', ' ').split())
        self.assertEqual((code, ''), (found, err), out)
        for word in words:
            self.assertIn(word, text)
        self.assertNotIn(KEY, text)
        return text

    def test_good(self):
        text = self.check(0, 'Check: Octavia', 'Check: Tables',
                          'Check: Amphora images')
        self.assertEqual(10, text.count('Result: Success'))

    def test_no_tables(self):
        """What needs them is left out."""
        self.drop_tables()
        text = self.check(2, 'Result: Failure', 'octavia-hmsync db upgrade')
        self.assertNotIn('Heartbeat key', text)

    def test_address_that_is_in_a_missing_table(self):
        self.drop_tables()
        self.check(2, 'octavia-hmsync db upgrade', 'is not to be had from '
                   'the database', hmsync={
                       'address_driver': 'neutron_port',
                       'address_interface': 'lo'})

    def test_no_database(self):
        self.write_conf(database={'connection':
                                  'mysql+pymysql://o:S3cret@127.0.0.1:1/o'})
        code, out, err = self.run_command('upgrade', 'check')
        self.assertEqual((2, '', 1), (code, out, err.count('\n')), err)
        self.assertIn('The database cannot be used', err)
        self.assertNotIn('S3cret', err)

    def test_what_nobody_thought_of(self):
        # The driver of the database says so when it connects.
        self.write_conf(database={
            'connection': 'mysql+pymysql://o:S3cret@127.0.0.1:1/o?nonsense=1'})
        code, out, err = self.run_command('upgrade', 'check')
        self.assertEqual((2, '', 1), (code, out, err.count('\n')), err)
        code, out, err = self.run_command('--debug', 'upgrade', 'check')
        self.assertEqual(2, code)
        self.assertIn('Traceback', err)

    def test_octavia_without_a_column(self):
        with self.engine.begin() as connection:
            connection.execute(sa.text(
                'ALTER TABLE amphora RENAME COLUMN role TO part'))
        self.addCleanup(self._rename_back)
        self.check(2, 'has no amphora.role')

    def _rename_back(self):
        with self.database.engine.begin() as connection:
            connection.execute(sa.text(
                'ALTER TABLE amphora RENAME COLUMN part TO role'))

    def test_not_switched_on(self):
        self.check(2, 'does not switch the plugin on',
                   DEFAULT={'config_source': None})
        self.check(1, 'statistics_drivers has no hmsync',
                   controller_worker={'statistics_drivers': 'stats_db'})

    def test_pinned_addresses(self):
        self.check(1, 'lists 192.0.2.7:5555', health_manager={
            'controller_ip_port_list': '192.0.2.7:5555'})

    def test_address(self):
        self.check(1, 'would not register',
                   health_manager={'bind_ip': '0.0.0.0'})
        self.check(1, 'nothing can listen at [health_manager] bind_ip = '
                      '192.0.2.1', health_manager={'bind_ip': '192.0.2.1'})
        self.check(1, 'nothing can listen at [health_manager] bind_ip = '
                      '2001:db8::1', 'Health managers',
                   hmsync={'address_driver': 'static',
                           'static_address': '192.0.2.1'},
                   health_manager={'bind_ip': '2001:db8::1'})
        # For these, listening everywhere will do.
        self.check(0, hmsync={'address_driver': 'static',
                              'static_address': '192.0.2.1'},
                   health_manager={'bind_ip': '0.0.0.0'})

    def test_no_health_manager(self):
        self.make_older(models.HealthManager, 'keepalive_at', 100)
        self.check(1, 'No health manager has registered that is up')

    def test_no_house_keeping(self):
        self.make_older(models.HouseKeeper, 'keepalive_at', 100)
        self.check(1, 'No octavia-housekeeping has registered that is up')

    def test_blind_controller(self):
        for host in ('good', 'blind'):
            uploader_repo.touch(self.engine, f'hk on {host}', 20)
        self.check(0)
        uploader_repo.set_overtaken(self.engine, 'hk on blind', 3)
        self.check(1, 'others reach: hk on blind. Check the route')

    def test_health_manager_without_the_statistics_driver(self):
        self.register('hm2', 2, is_observing=False)
        self.check(1, 'The health managers hm2 do not tell')

    def test_older_health_managers(self):
        self.register('hm2', 2, release='0.0.1.dev1')
        # From before it was recorded.
        self.register('hm3', 3, release=None)
        self.check(1, 'The health managers hm2 (0.0.1.dev1), hm3 (unknown) '
                      'run an older release')
        self.make_older(models.HealthManager, 'keepalive_at', 100, host='hm2')
        self.make_older(models.HealthManager, 'keepalive_at', 100, host='hm3')
        self.register('hm4', 4, release='99.0.0')
        self.check(0)
        self.register('hm4', 4, release='not a version')
        self.check(1, 'The health managers hm4 (not a version) run an older')

    def test_clocks_of_database_nodes(self):
        self.make_older(models.HealthManager, 'keepalive_at', -8)
        self.check(1, 'Check: Clocks', 'keepalives of hm1 lie up to 8 s in '
                   'the future of the node', 'Run NTP')

    def test_another_key(self):
        self.register('hm2', 2, key='another')
        self.check(2, 'with another one: hm2')

    def test_old_images(self):
        amphora_id, = self.add_amphorae(1)
        amphora_repo.add_missing(self.engine)
        self.register('hm2', 2)
        for number, addresses in ((1, ('192.0.2.1:5555',)),
                                  (2, ('192.0.2.2:5555',))):
            generation_repo.publish(self.engine, number,
                                    dict.fromkeys(addresses, 0), '', 'here')
            claim_repo.claim_due(self.engine, number, 'batch', 10, 60)
            outcome_repo.record(self.engine, number, 'batch', [
                outcome_repo.Outcome(amphora_id, 'APPLIED', addresses)])
        self.make_older(models.Amphora, 'applied_at', 3600)
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.Heartbeat).values(
                amphora_id=amphora_id, address='192.0.2.1:5555',
                heard_at=sa.func.now()))
        for host in ('hm1', 'hm2'):
            hm_repo.set_heard(self.engine, host, host)
        self.check(1, '1 amphorae acknowledge a list')

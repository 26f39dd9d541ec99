# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync upgrade check."""

import datetime
import json
import os
import shutil
import tempfile
import time
import types

from oslo_utils import fixture
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.cluster.distribution.ovn import nat
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.distribution.ovs import floating_ips
from octavia_hmsync import compute
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image import target
from octavia_hmsync.services.checks import clusters
from octavia_hmsync.services.checks import controllers
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync import version
from tests.cloud import certificates
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.cli import base

KEY = 'S3cret'
# A busy machine takes long.
PATIENT = ('--timeout', '600')
GOOD = {
    'DEFAULT': {'config_source': 'hmsync'},
    'hmsync': {'driver': 'octavia_hmsync', 'allow_loopback': True},
    'controller_worker': {'statistics_drivers': 'stats_db, hmsync',
                          'amp_boot_network_list': 'net'},
    'health_manager': {'bind_ip': '127.0.0.1', 'heartbeat_key': KEY},
}


class CheckTestCase(base.CommandTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = certificates.Certificates(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.made._directory)
        cls.made.setUp()
        cls.addClassCleanup(cls.made.cleanUp)

    def setUp(self):
        super().setUp()
        self.register()
        keeper_repo.touch(self.engine, 'keeper1', ())
        self.patch(controllers, '_ask', self.answer)

    async def answer(self, conf, amphorae):
        """Answer like healthy agents; others try real ones."""
        return [None] * len(amphorae)

    def register(self, host='hm1', number=1, key=KEY, is_observing=True,
                 release=version.version_string()):
        hm_repo.register(self.engine, host, f'192.0.2.{number}', 5555, host,
                         20, heartbeat_key.digest(key),
                         is_observing=is_observing, plugin_version=release)

    def check(self, code, *words, said='', **groups):
        """Run it with an octavia.conf that is good but for these groups.

        :param said: what stderr has to begin with.
        """
        self.write(**groups)
        found, out, err = self.run_command('upgrade', 'check', *PATIENT)
        # The text is wrapped in a table.
        text = ' '.join(out.replace('|', ' ').split())
        self.assertEqual((code, said), (found, err[:len(said) or None]), out)
        for word in words:
            self.assertIn(word, text)
        self.assertNotIn(KEY, text)
        return text

    def write(self, **groups):
        """Write an octavia.conf that is good but for these groups."""
        servers = self.made.server_authority
        good = {**GOOD, 'haproxy_amphora': {
            'client_cert': self.made.client_path,
            'server_ca': servers.certificate_path}}
        good['certificates'] = {
            'ca_certificate': servers.certificate_path,
            'ca_private_key': servers.key_path}
        good['controller_worker'] = {
            **GOOD['controller_worker'],
            'client_ca': self.made.client_authority.certificate_path}
        self.conf_path = self.write_conf(**{
            group: {**good.get(group, {}), **groups.get(group, {})}
            for group in {*good, *groups}})

    def found(self, name, **groups):
        """Return (result, details) of one check."""
        self.write(**groups)
        _code, results = self.results()
        return results[name]

    def assertWarns(self, words, found, result='Warning'):
        self.assertEqual(result, found[0], found)
        self.assertIn(words, found[1])
        self.assertNotIn('\n', found[1])

    def assertFails(self, words, found):
        self.assertWarns(words, found, 'Failure')

    def results(self):
        """Run it for a program.

        :returns: (exit code, {check: (result, details)}).
        """
        code, out, err = self.run_command('upgrade', 'check', '-f', 'json',
                                          *PATIENT)
        self.assertEqual('', err)
        return code, {row['check']: (row['result'], row['details'])
                      for row in json.loads(out)}

    def assertNotChecked(self, because_of, *names):
        """What fails is one check, and nobody can tell these any more."""
        _code, results = self.results()
        because = f'Not known while "{because_of}" is a failure.'
        self.assertEqual(because_of, next(
            name for name, (result, _details) in results.items()
            if result == 'Failure'))
        self.assertEqual(
            set(names), {name for name, found in results.items()
                         if found == ('Not checked', because)})


class TestCheck(CheckTestCase):

    def test_good(self):
        self.publish(1, '192.0.2.1:5555')
        self.adopt()
        text = self.check(0, 'Check: Octavia', 'Check: Tables',
                          'Check: Amphora images')
        self.assertEqual(19, text.count('Result: Success'))
        code, results = self.results()
        self.assertEqual((0, {('Success', None)}),
                         (code, set(results.values())))

    def test_certificates_of_amphorae(self):
        """Octavia rotates them long before."""
        self.publish(1, '192.0.2.1:5555')
        self.adopt()
        with self.engine.begin() as connection:
            connection.execute(sa.text(
                "UPDATE amphora SET cert_expiration = "
                "datetime('now', '+2 days')"))
        self.check(2, 'Check: Amphora certificates Result: Failure Details: '
                   'The certificates of 1 amphorae end within 3 days',
                   'fail over amphorae whose certificate has ended')

    def test_formats(self):
        self.check(2, DEFAULT={'config_source': None})
        code, out, err = self.run_command(
            'upgrade', 'check', '-f', 'csv', '-c', 'check', '-c', 'result')
        self.assertEqual((2, ''), (code, err))
        self.assertIn('"Switched on","Failure"\n', out)
        code, out, err = self.run_command('upgrade', 'check', '-c', 'Check')
        self.assertEqual((2, ''), (code, err))
        self.assertIn('| Check: Switched on ', out)
        self.assertNotIn('Result', out.replace('Upgrade Check Results', ''))
        self.assertEqual(
            (2, ''), self.run_command('upgrade', 'check', '-c', 'x')[:2])

    def test_no_tables(self):
        """What needs them is not checked."""
        self.drop_tables()
        self.check(2, 'Result: Failure', 'octavia-hmsync db upgrade')
        self.assertNotChecked(
            'Tables', 'Pinned addresses', 'Management network',
            'Health managers', 'Housekeeping', 'Clocks', 'Heartbeat key',
            'Amphora certificates', 'Amphora agents', 'Amphora images',
            'Clusters', 'Distributors')

    def test_address_that_is_in_a_missing_table(self):
        self.drop_tables()
        self.check(2, 'octavia-hmsync db upgrade', 'is not to be had from '
                   'the database', hmsync={
                       'address_driver': 'neutron_port',
                       'address_interface': 'lo'})

    def test_no_database(self):
        """What does not need it is checked all the same."""
        text = self.check(2, 'The database cannot be used', database={
            'connection': 'mysql+pymysql://o:another@127.0.0.1:1/o'})
        self.assertNotIn('another', text)
        self.assertNotChecked(
            'Database', 'Octavia', 'Tables', 'Pinned addresses',
            'Management network', 'Health managers', 'Housekeeping',
            'Clocks', 'Heartbeat key', 'Amphora certificates',
            'Amphora agents', 'Amphora images', 'Clusters', 'Distributors')

    def test_database_that_is_not_octavias(self):
        path = os.path.join(self.directory, 'other.db')
        self.check(2, f'The database sqlite:///{path} is not that of Octavia',
                   database={'connection': f'sqlite:///{path}'})

    def test_table_that_nobody_may_read(self):
        """Or is lost while it looks."""
        self.rename('hmsync_uploader', 'elsewhere')
        self.check(2, 'Check: Housekeeping Result: Failure Details: The '
                      'database cannot be used', 'Check: Amphora images')

    def rename(self, table, name):
        with self.engine.begin() as connection:
            connection.execute(sa.text(
                f'ALTER TABLE {table} RENAME TO {name}'))
        if name == 'elsewhere':
            self.addCleanup(self.rename, name, table)

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
        self.assertNotChecked(
            'Switched on', 'Pinned addresses', 'Advertised address',
            'Health managers', 'Housekeeping', 'Heartbeat key')
        self.check(1, 'statistics_drivers has no hmsync',
                   controller_worker={'statistics_drivers': 'stats_db'})

    def test_driver_of_another_name(self):
        """With it, no service of Octavia starts."""
        self.check(2, '[hmsync] driver = octavia_hmsnyc is not installed',
                   'that of octavia-hmsync is called octavia_hmsync.',
                   said=f'[hmsync] driver = octavia_hmsnyc in '
                        f'{self.conf_path} is not installed here',
                   hmsync={'driver': 'octavia_hmsnyc'})
        # With these they do.
        for name in ('octavia-hmsync', 'hmsync'):
            self.check(1, f'Warning Details: [hmsync] driver = {name} is '
                          f'taken for octavia_hmsync', 'Amphora images',
                       said=f'octavia-hmsync: [hmsync] driver = {name} is',
                       hmsync={'driver': name})

    def test_options_that_nobody_reads(self):
        self.check(
            1, 'Check: Options Result: Warning Details: These options are '
            'not known: [',
            f'[hmsync] poll_intervall (meant: poll_interval?) in '
            f'{self.conf_path}, [hmsync] reconcile_interval (meant: '
            f'[hmsync_network] reconcile_interval?) in {self.conf_path}',
            f'[hmysnc] (meant: [hmsync]?) in {self.conf_path}',
            'Correct or remove what is misspelt',
            hmsync={'poll_intervall': 3, 'reconcile_interval': 3},
            hmysnc={'offline_after': 15})

    def test_values_that_cannot_be_used(self):
        """All of them are told, and the rest is checked."""
        self.check(
            2, 'offline_after = 3 is less than twice', 'Raise offline_after. '
            '[hmsync_network] reconcile_interval cannot be used', 'The plugin '
            'is off until then. These options are not known: [hmsync] '
            'poll_intervall',
            'Check: Amphora images',
            hmsync={'offline_after': 3, 'poll_intervall': 3},
            hmsync_network={'reconcile_interval': 'rarely'})

    def test_pinned_addresses(self):
        """Right before the first list, wrong after the roll-out."""
        pinned = {'controller_ip_port_list': '192.0.2.7:5555'}
        self.check(0, '192.0.2.7:5555 will be in the first list',
                   health_manager=pinned)
        self.publish(1, '192.0.2.1:5555')
        self.check(1, 'lists 192.0.2.7:5555. These stay in every list',
                   health_manager=pinned)
        self.check(0)

    def test_pinned_by_name(self):
        self.check(1, 'Result: Warning Details: [health_manager] '
                   'controller_ip_port_list has controller1:5555, which is no '
                   'address', said='[health_manager] controller_ip_port_list:',
                   health_manager={'controller_ip_port_list':
                                   '192.0.2.1:5555, controller1:5555'})

    def test_nothing_pinned_before_the_first_list(self):
        self.check(0, 'no amphora has a list to lose')
        self.add_amphorae(3)
        self.check(1, 'has no controller_ip_port_list, and no list was '
                      'published yet: 3 amphorae would get a first list')
        self.publish(1, '192.0.2.1:5555')
        self.check(0)

    def publish(self, number, *addresses):
        generation_repo.publish(self.engine, number,
                                dict.fromkeys(addresses, 0), '', 'here')

    def adopt(self):
        """Have an amphora use the list of the first generation."""
        amphora_id, = self.add_amphorae(1)
        amphora_repo.add_missing(self.engine)
        claim_repo.claim_due(self.engine, 1, 'batch', 10, 60)
        outcome_repo.record(self.engine, 1, 'batch', [outcome_repo.Outcome(
            amphora_id, 'APPLIED', ('192.0.2.1:5555',))])
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(models.Amphora).values(adopted_at=sa.func.now()))

    def test_what_nobody_can_tell_yet(self):
        """That nothing was found is no proof of anything."""
        self.make_older(models.HealthManager, 'keepalive_at', 100)
        self.check(1, 'Check: Clocks Result: Not checked Details: No health '
                      'manager is up whose keepalives',
                   'Check: Heartbeat key Result: Not checked Details: No '
                   'health manager is up whose heartbeat_key',
                   'Check: Amphora images Result: Not checked Details: No '
                   'amphora has acknowledged a list yet.')
        self.publish(1, '192.0.2.1:5555')
        self.adopt()
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Amphora).values(
                adopted_at=None))
        self.check(1, 'Check: Amphora images Result: Not checked Details: '
                      'None of 1 amphorae that acknowledge a list was seen')

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

    def test_housekeeper_that_uploads_nothing(self):
        keeper_repo.touch(self.engine, 'keeper2', (), problem='No file: x.')
        self.check(1, 'Check: Housekeeping Result: Warning Details: octavia-'
                      'housekeeping on keeper2 uploads nothing: No file: x.')
        keeper_repo.touch(self.engine, 'keeper1', (), problem='No way.')
        self.check(2, 'keeper1 uploads nothing: No way. octavia-house')

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
        self.register('hm3', 3, release='0.0.1.dev2')
        self.check(1, 'The health managers hm2 (0.0.1.dev1), hm3 (0.0.1.dev2) '
                      'run an older release')
        self.make_older(models.HealthManager, 'keepalive_at', 100, host='hm2')
        self.make_older(models.HealthManager, 'keepalive_at', 100, host='hm3')
        self.register('hm4', 4, release='99.0.0')
        self.check(0)
        self.register('hm4', 4, release='not a version')
        self.check(1, 'The health managers hm4 (not a version) run an older')

    def test_clocks_of_database_nodes(self):
        # By how much, passes while the command starts.
        self.make_older(models.HealthManager, 'keepalive_at', -600)
        self.check(1, 'Check: Clocks', 'keepalives of hm1 lie up to',
                   's in the future of the node', 'Run NTP')

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


CLUSTERS = {
    'api_settings': {'enabled_provider_drivers':
                     'amphora: a, amphora_cluster: b'},
    'controller_worker': {**GOOD['controller_worker'],
                          'amphora_driver': 'hmsync',
                          'image_driver': 'image_noop_driver',
                          'distributor_driver': 'hmsync_ovs'},
    'certificates': {'server_certs_key_passphrase': 'x' * 32},
    'hmsync_cluster': {'distributors': 'one=https://127.0.0.1:1, '
                                       'two=https://127.0.0.1:2'}}


class TestClusters(CheckTestCase):
    """Of no cloud without clusters anything is asked: see the others."""

    def setUp(self):
        super().setUp()
        self.asked = []
        self.problems = {}
        self.broken = set()
        # By URL, when a certificate ends.
        self.ends = {}
        self.patch(distributors, 'make_client', self.make_client)
        # Their types in Neutron.
        self.agents = set()
        self.refusal = None
        self.patch(floating_ips.cloud, 'connect', self.connect)
        self.patch(compute, 'connect_to_nova', lambda conf: (
            types.SimpleNamespace(compute=types.SimpleNamespace(
                find_flavor=self.find, find_server_group=self.find))))

    def connect(self, conf):
        if self.refusal:
            raise self.refusal
        return types.SimpleNamespace(network=types.SimpleNamespace(
            find_network=self.find, find_security_group=self.find,
            agents=lambda: [types.SimpleNamespace(agent_type=kind)
                            for kind in sorted(self.agents)]))

    def find(self, name):
        """Find by name or id, as openstacksdk does."""
        return {name: types.SimpleNamespace(id=name),
                'by-name': types.SimpleNamespace(id='1'),
                'gone': None}[name]

    def make_client(self, conf, url):
        self.asked.append(url)
        case = self

        class Client:
            def get_versions(self):
                if url in case.problems:
                    raise case.problems[url]
                return {'software_version': '1'}

            def get_status(self):
                return {'status': 'OFFLINE' if url in case.broken
                        else 'ONLINE', 'error': 'no Open vSwitch',
                        'load': None,
                        'certificates': case.ends.get(url, {})}

        return Client()

    def clusters(self, **groups):
        return self.found('Clusters', **{**CLUSTERS, **groups})

    def distributors(self, **groups):
        return self.found('Distributors', **{**CLUSTERS, **groups})

    def add_cluster(self):
        cluster_repo.add(self.engine, cluster_calls.new())

    def execute(self, text):
        with self.engine.begin() as connection:
            connection.execute(sa.text(text))

    def test_no_clusters(self):
        self.assertEqual(('Success', None), self.found('Clusters'))
        self.assertEqual(('Success', None), self.found('Distributors'))
        self.assertEqual([], self.asked)

    def test_all_is_well(self):
        for _ in range(2):
            self.assertEqual(('Success', None), self.clusters())
            self.assertEqual(('Success', None), self.distributors())
            self.add_cluster()
        self.assertEqual({'https://127.0.0.1:1', 'https://127.0.0.1:2'},
                         set(self.asked))

    def test_passphrase_that_everybody_knows(self):
        known = {'server_certs_key_passphrase':
                 'insecure-key-do-not-use-this-key'}
        self.assertWarns('Clients that come to another amphora do full TLS '
                         'handshakes', self.clusters(certificates=known),
                         'Success')
        self.assertEqual(('Success', None), self.clusters(
            certificates=known, hmsync_cluster={
                **CLUSTERS['hmsync_cluster'], 'tls_ticket_period': 0}))

    def test_drivers(self):
        for option, value in (('amphora_driver',
                               'amphora_haproxy_rest_driver'),
                              ('distributor_driver',
                               'distributor_noop_driver')):
            self.assertFails(
                f'[controller_worker] {option} is {value}', self.clusters(
                    controller_worker={**CLUSTERS['controller_worker'],
                                       option: value}))
        self.assertFails('[hmsync_cluster] distributors is empty',
                         self.clusters(hmsync_cluster={'standby': 0}))

    def test_switched_off_with_clusters(self):
        off = {'enabled_provider_drivers': 'amphora: a'}
        self.assertEqual('Success', self.clusters(api_settings=off)[0])
        self.add_cluster()
        self.assertFails(
            '1 load balancers have clusters, and [api_settings] '
            'enabled_provider_drivers has no amphora_cluster',
            self.clusters(api_settings=off))
        self.assertFails(
            '1 load balancers have clusters, and octavia.conf does not '
            'switch the plugin on', self.clusters(
                DEFAULT={'config_source': None}))

    def test_rows_of_octavia(self):
        self.addCleanup(self.run_ok, 'db', 'upgrade')
        self.addCleanup(
            self.execute, "DELETE FROM lb_topology WHERE "
            "name = 'ACTIVE_ACTIVE'")
        self.execute("UPDATE lb_topology SET description = 'of mine' WHERE "
                     "name = 'ACTIVE_ACTIVE'")
        self.assertWarns('which does no harm: lb_topology ACTIVE_ACTIVE (of '
                         'mine)', self.clusters(), 'Success')
        # It stays what it is.
        self.run_ok('db', 'upgrade')
        self.assertWarns('(of mine)', self.clusters(), 'Success')
        self.execute("DELETE FROM lb_topology WHERE name = 'ACTIVE_ACTIVE'")
        self.execute("DELETE FROM amphora_roles WHERE name = 'IN_CLUSTER'")
        self.assertFails('no row lb_topology ACTIVE_ACTIVE, amphora_roles '
                         'IN_CLUSTER. Run "octavia-hmsync db upgrade"',
                         self.clusters())
        self.run_ok('db', 'upgrade')
        self.assertEqual(('Success', None), self.clusters())

    def test_distributors_that_do_not_answer(self):
        self.problems['https://127.0.0.1:1'] = (
            exceptions.DistributorUnreachable('the distributor is down'))
        self.assertEqual(('Warning', 'one: the distributor is down.'),
                         self.distributors())
        self.problems['https://127.0.0.1:2'] = (
            exceptions.DistributorUntrusted('its certificate is another\'s'))
        self.assertFails(
            'No distributor can be used: one: the distributor is down. two: '
            'its certificate is another\'s.',
            self.distributors())

    def test_certificates_that_end(self):
        """Thirty days before that; they can be used till then."""
        now = time.time()
        for url in ('https://127.0.0.1:1', 'https://127.0.0.1:2'):
            self.ends[url] = {'server_cert': now + 400 * 86400,
                              'client_ca': now + 31 * 86400}
        self.assertEqual(('Success', None), self.distributors())
        for url in self.ends:
            self.ends[url]['server_cert'] = now + 3 * 86400
        code, details = self.distributors()
        self.assertEqual('Warning', code)
        self.assertEqual(2, details.count('a certificate of its API ends'))
        self.assertIn('one: ', details)
        # Without TLS there is none.
        self.ends.clear()
        self.assertEqual(('Success', None), self.distributors())

    def test_own_certificates_that_end(self):
        """Those for distributors alone; "Agents" has the others."""
        own = {**CLUSTERS['hmsync_cluster'],
               'distributor_client_cert': self.made.client_path}
        self.assertEqual(('Success', None),
                         self.distributors(hmsync_cluster=own))
        clock = self.useFixture(fixture.TimeFixture())
        clock.advance_time_delta(datetime.timedelta(
            days=certificates.DAYS - 29))
        self.assertEqual(('Success', None), self.distributors())
        self.assertWarns(
            f'[hmsync_cluster] distributor_client_cert = '
            f'{self.made.client_path} ends on',
            self.distributors(hmsync_cluster=own))
        # make_client() tells of a file that cannot be read.
        own['distributor_ca'] = '/nowhere'
        self.assertEqual(('Success', None),
                         self.distributors(hmsync_cluster=own))

    def test_distributors_that_are_booted(self):
        """Without any in the option; what booting needs is asked for."""
        wanted = {'distributor_instances': 2}
        self.assertFails(
            '[hmsync_cluster] distributor_flavor_id is not set',
            self.distributors(hmsync_cluster=wanted))
        wanted.update(distributor_flavor_id='small',
                      distributor_network_id='management',
                      distributor_secgroup_list='group')
        self.assertEqual(('Success', None),
                         self.clusters(hmsync_cluster=wanted))
        self.assertEqual(('Success', None),
                         self.distributors(hmsync_cluster=wanted))
        for service, name, value in (
                ('Neutron', 'distributor_network_id', 'by-name'),
                ('Neutron', 'distributor_secgroup_list', 'group, gone'),
                ('Nova', 'distributor_flavor_id', 'by-name'),
                ('Nova', 'distributor_server_group', 'gone')):
            self.assertWarns(
                f'{name} has {value.split()[-1]}, which is the id of nothing '
                f'in {service}',
                self.distributors(hmsync_cluster={**wanted, name: value}))
        self.patch(target.Targets, '_find', lambda _self, tag: target.Target(
            None, f'No image has the tag {tag}.'))
        self.assertWarns('No image has the tag hmsync-distributor.',
                         self.distributors(hmsync_cluster=wanted))
        self.patch(target.Targets, '_find',
                   lambda _self, _tag: target.Target('image'))
        instance_id = '00000000-0000-4000-8000-000000000001'
        booted_repo.reserve(self.engine, instance_id, [], 'owner', 60)
        booted_repo.record(self.engine, instance_id, 'owner', 60,
                           state='READY', compute_id='server',
                           address='192.0.2.7')
        self.problems['https://192.0.2.7:9444'] = (
            exceptions.DistributorUnreachable('it is down'))
        self.assertFails('No distributor can be used: server: it is down.',
                         self.distributors(hmsync_cluster=wanted))
        # Its clusters leave it, which is as it should be.
        self.add_cluster()
        row, = distributor_repo.sync(self.engine, 'hmsync_ovs', {
            'server': 'https://192.0.2.7:9444'})
        vip_repo.add(self.engine, 'cluster1', row.id)
        booted_repo.record(self.engine, instance_id, 'owner', 60,
                           state='LEAVING')
        distributor_repo.sync(self.engine, 'hmsync_ovs', {})
        self.assertEqual(('Success', None),
                         self.distributors(hmsync_cluster=wanted))

    def test_clusters_that_nothing_looks_after(self):
        """Whatever looks after them hears distributors all the time."""
        words = 'no process is seen that looks after clusters'

        def look(**options):
            return self.clusters(hmsync_cluster={
                **options, 'keep_in_housekeeping': False})

        listed = CLUSTERS['hmsync_cluster']
        self.assertWarns(words, look(**listed))
        one, _two = distributor_repo.sync(self.engine, 'hmsync_ovs', {
            'one': 'https://127.0.0.1:1', 'two': 'https://127.0.0.1:2'})
        self.assertWarns(words, look(**listed))
        distributor_repo.set_status(self.engine, one.id, 'ONLINE')
        self.assertEqual(('Success', None), look(**listed))
        self.make_older(models.Distributor, 'last_seen', 100, id=one.id)
        self.assertWarns(words, look(**listed))
        # Since when is not known.
        distributor_repo.set_status(self.engine, one.id, 'OFFLINE')
        self.assertEqual(('Success', None), look(**listed))
        distributor_repo.sync(self.engine, 'hmsync_ovs', {})
        # None is booted before the first cluster.
        self.assertEqual(('Success', None), look(distributor_instances=2))
        self.add_cluster()
        self.assertWarns(words, look(distributor_instances=2))

    def test_distributor_that_does_not_work(self):
        self.broken.add('https://127.0.0.1:2')
        self.assertEqual(('Warning', 'two: no Open vSwitch.'),
                         self.distributors())

    def test_certificates(self):
        def refuse(conf, url):
            raise exceptions.InvalidConfiguration('no certificate here.')

        self.patch(distributors, 'make_client', refuse)
        self.assertFails('No distributor can be used: one: no certificate '
                         'here. two: no certificate here.',
                         self.distributors())

    def test_one_distributor(self):
        one = {'distributors': 'one=https://127.0.0.1:1'}
        self.assertWarns('distributors has one alone',
                         self.distributors(hmsync_cluster=one))

    def test_distributor_that_left(self):
        self.add_cluster()
        row, = distributor_repo.sync(self.engine, 'hmsync_ovs',
                                     {'old': 'https://a:1'})
        vip_repo.add(self.engine, 'cluster1', row.id)
        distributor_repo.sync(self.engine, 'hmsync_ovs', {})
        self.assertWarns('old left [hmsync_cluster] distributors',
                         self.distributors())

    def test_clusters_of_another_driver(self):
        self.add_cluster()
        self.assertFails(
            'clusters that were made with another one: 1 with hmsync_ovs',
            self.found('Clusters', **self.with_ovn()))

    def with_ovn(self, **options):
        return {**CLUSTERS, 'controller_worker': {
            **CLUSTERS['controller_worker'],
            'distributor_driver': 'hmsync_ovn'}, 'hmsync_cluster': {},
            'ovn': {'ovn_nb_connection': 'unix:/nowhere/nb',
                    'ovn_sb_connection': 'unix:/nowhere/sb', **options}}

    def test_databases_of_ovn(self):
        self.patch(clusters, '_OVN_TIMEOUT', 0.1)
        found = self.found('Distributors', **self.with_ovn())
        self.assertFails('OVN_Northbound of OVN cannot be used at '
                         'unix:/nowhere/nb', found)
        self.assertFails('OVN_Southbound of OVN cannot be used at '
                         'unix:/nowhere/sb', found)
        self.assertFails(
            '[ovn] ovn_nb_private_key = /nowhere/key cannot be read',
            self.found('Distributors', **self.with_ovn(
                ovn_nb_connection='ssl:127.0.0.1:1',
                ovn_nb_private_key='/nowhere/key')))
        asked = []
        self.patch(connections, 'connect',
                   lambda conf, database, timeout: asked.append(database))
        self.assertEqual(('Success', None), self.found(
            'Distributors', **self.with_ovn()))
        self.assertEqual(['OVN_Northbound', 'OVN_Southbound'], asked)

    def test_floating_ips(self):
        """Where octavia.conf says where OVN is."""
        self.patch(clusters, '_OVN_TIMEOUT', 0.1)
        self.agents = {'OVN Controller agent'}
        known = {'ovn_nb_connection': 'unix:/nowhere/nb'}
        self.assertWarns(
            'OVN_Northbound of OVN cannot be used at unix:/nowhere/nb',
            self.distributors(ovn=known))
        found = {}
        self.patch(nat, 'find_distributed', lambda conf, timeout: found)
        self.assertEqual(('Success', None),
                         self.distributors(ovn=known))
        found['port'] = '203.0.113.9'
        self.assertWarns('1 floating IPs are distributed by OVN',
                         self.distributors(ovn=known))

    def test_floating_ips_that_are_not_seen(self):
        """OVN may distribute them, and octavia.conf does not say where it is.

        """
        self.agents = {'Open vSwitch agent', 'L3 agent'}
        self.assertEqual(('Success', None), self.distributors())
        for kind in ('OVN Controller agent', 'OVN Controller Gateway agent'):
            self.agents = {'OVN Metadata agent', kind}
            self.assertWarns(
                'Neutron has agents of OVN, and [ovn] ovn_nb_connection is '
                'not set', self.distributors())
        # Not every user of Neutron's may see them.
        self.refusal = exceptions.CloudRefused('no agents for you')
        self.assertEqual(('Success', None), self.distributors())
        self.refusal = exceptions.CloudUnavailable('Neutron is away')
        self.assertEqual(('Warning', 'Neutron is away'), self.distributors())

    def test_no_tls(self):
        found = self.found('Options', **{**CLUSTERS, 'hmsync_cluster': {
            'distributors': 'http://127.0.0.1:1'}})
        self.assertFails('only https is spoken', found)
        self.assertEqual('Not checked', self.results()[1]['Distributors'][0])

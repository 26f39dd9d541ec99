# SPDX-License-Identifier: Apache-2.0

"""image clone, with the real openstacksdk against a fake of both APIs."""

import contextlib
from importlib import metadata
import io
import json
import logging
import re
import subprocess
import sys
import time
import types
from unittest import mock

from cliff import app
from cliff import commandmanager
from oslotest import base

from octavia_hmsync.cmd import hmsync
from octavia_hmsync.image.clone import attributes as attrs
from octavia_hmsync.image.clone import cloud
from octavia_hmsync.image.clone import load_balancers
from octavia_hmsync.image.clone import switcher
from tests.unit.image.clone import examples
from tests.unit.image.clone import fake_cloud


class Clock:
    """Sleep passes its time at once."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        time.sleep(0)


class CloneTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(fake_cloud.FakeCloud())
        self.clock = Clock()
        for module in (load_balancers, switcher):
            patch = mock.patch.object(module, 'time', self.clock)
            patch.start()
            self.addCleanup(patch.stop)
        root = logging.getLogger()
        self.addCleanup(setattr, root, 'handlers', list(root.handlers))
        self.source = examples.make(self.cloud)
        self.fips = [self.cloud.add_floating_ip('203.0.113.1', self.source),
                     self.cloud.add_floating_ip('203.0.113.2', self.source,
                                                self.additional(self.source))]

    @staticmethod
    def additional(raw):
        return raw['additional_vips'][0]['ip_address']

    def run_command(self, *argv):
        """Returns (exit code, standard output, standard error)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = hmsync.main(['image', 'clone', *argv])
            except SystemExit as e:
                code = e.code
        return code, out.getvalue(), err.getvalue()

    def show(self, *argv):
        code, out, err = self.run_command(*argv, '-f', 'json')
        self.assertEqual(0, code, err)
        return json.loads(out)

    def fail(self, *argv):
        """Run a command that fails; returns the line on stderr."""
        code, out, err = self.run_command(*argv)
        self.assertEqual((1, ''), (code, out), err)
        return err

    def create(self, *argv):
        row = self.show('create', self.source['id'], *argv)
        self.clone = self.cloud.load_balancers[row['clone_id']]
        return row

    def switch(self):
        self.create()
        return self.show('switch', 'web')

    def at(self, raw):
        return {'203.0.113.1': raw['vip_address'],
                '203.0.113.2': self.additional(raw)}

    def pools_of(self, raw):
        return sorted((each['name'] for each in self.cloud.pools.values()
                       if each['_lb'] == raw['id']), key=str)

    def count(self, method, path):
        return self.cloud.requests.count((method, path))


class TestWays(CloneTestCase):
    """What goes well."""

    def test_create(self):
        self.cloud.page_size = 2
        row = self.create()
        self.assertEqual('READY', row['phase'])
        self.assertEqual(self.source['id'], row['loadbalancer_id'])
        self.assertEqual(['203.0.113.1', '203.0.113.2'],
                         row['floating_ips'])
        self.assertEqual('3/3', row['members_up'])
        self.assertEqual(self.clone['vip_address'], row['vip_address'])
        self.assertEqual(1, self.count('POST', '/lbaas/loadbalancers'))
        self.assertEqual(['blue', 'green', 'green'],
                         self.pools_of(self.clone))
        # Nobody touches the source.
        self.assertEqual(['shop'], self.source['tags'])
        self.assertEqual(self.at(self.source), self.cloud.leads_to())
        self.assertEqual(
            {'shop', f'octavia-hmsync:clone-of={self.source["id"]}',
             *(f'octavia-hmsync:clone-fip={each}' for each in self.fips)},
            set(self.clone['tags']))

    def test_again(self):
        first = self.create()
        before = len(self.cloud.requests)
        self.assertEqual(first, self.create())
        self.assertEqual([], [
            request for request in self.cloud.requests[before:]
            if request[0] != 'GET'])

    def test_another_name(self):
        self.create('--name', 'web2')
        self.assertEqual('web2', self.clone['name'])
        self.assertEqual('READY', self.show('create', 'web2')['phase'])
        self.assertEqual('SWITCHED', self.show('switch', 'web')['phase'])

    def test_rows_of_an_older_release(self):
        """NULL in what Octavia has got since, and fills in for new ones."""
        for table, names in (
                (self.cloud.listeners, attrs.LISTENER.filled),
                (self.cloud.pools, attrs.POOL.filled),
                (self.cloud.monitors, attrs.MONITOR.filled),
                (self.cloud.policies, attrs.POLICY.filled)):
            for raw in table.values():
                raw.update(dict.fromkeys(names))
        for pool in self.cloud.pools.values():
            pool['tls_enabled'] = pool['name'] == 'blue'
            for member in pool['members']:
                member['weight'] = None
        code, out, err = self.run_command('create', 'web')
        self.assertEqual(0, code, err)
        self.assertEqual('READY', self.show('list')[0]['phase'])
        self.assertIn('Note: listener TERMINATED_HTTPS 443 has no '
                      'tls_ciphers, tls_versions', err)
        self.assertIn('Note: pool blue has no tls_ciphers, tls_versions',
                      err)
        self.assertNotIn('listener HTTP 80', err)
        # HTTP/2 is not offered where it was not.
        self.assertEqual([['http/1.1', 'http/1.0']] * 2, [
            raw['alpn_protocols']
            for table in (self.cloud.listeners, self.cloud.pools)
            for raw in table.values() if raw.get('alpn_protocols')])
        self.assertEqual('SWITCHED', self.show('switch', 'web')['phase'])

    def test_there_and_back(self):
        row = self.switch()
        self.assertEqual('SWITCHED', row['phase'])
        self.assertEqual(self.at(self.clone), self.cloud.leads_to())
        self.assertEqual('SWITCHED', self.show('switch', 'web')['phase'])
        self.assertEqual('READY', self.show('back', 'web')['phase'])
        self.assertEqual(self.at(self.source), self.cloud.leads_to())
        self.assertEqual('READY', self.show('back', 'web')['phase'])
        self.assertEqual(
            'DELETED', self.show('back', 'web', '--delete')['phase'])
        self.assertEqual([self.source['id']],
                         list(self.cloud.load_balancers))

    def test_floating_ip_that_came_later(self):
        self.create()
        self.cloud.add_floating_ip('203.0.113.3', self.source,
                                   network='second')
        own = self.cloud.add_floating_ip('203.0.113.9', self.clone,
                                         network='third')
        self.assertEqual(3, len(self.show('switch', 'web')['floating_ips']))
        self.assertEqual('READY', self.show('back', 'web')['phase'])
        self.assertEqual(self.clone['vip_port_id'],
                         self.cloud.floating_ips[own]['port_id'])
        self.assertIn('203.0.113.9', self.run_command('back', 'web',
                                                      '--delete')[2])
        self.assertIn(self.clone['id'], self.cloud.load_balancers)

    def test_retire(self):
        self.switch()
        self.cloud.connections[self.source['id']] = [7, 3, 0, 2, 0]
        self.assertEqual('RETIRED', self.show('retire', 'web')['phase'])
        self.assertGreater(self.clock.now, switcher.SETTLE)
        self.assertLess(self.clock.now, 120)
        self.assertEqual([self.clone['id']], list(self.cloud.load_balancers))
        self.assertEqual(['shop'], self.clone['tags'])
        self.assertEqual([], self.show('list'))
        self.assertIn('has no clone', self.fail('retire', 'web'))

    def test_retire_cuts(self):
        self.switch()
        self.cloud.connections[self.source['id']] = [7]
        err = self.run_command('retire', 'web', '--timeout', '60')[2]
        self.assertIn('7 connections are cut', err)
        self.assertNotIn(self.source['id'], self.cloud.load_balancers)

    def test_list_and_check(self):
        self.assertEqual([], self.show('list'))
        checks = {row['check']: row['result']
                  for row in self.show('check', 'web')}
        self.assertEqual('OK', checks['floating_ip'])
        self.assertEqual('NOTE', checks['not_cloned'])
        self.create()
        self.assertEqual([self.clone['id']],
                         [row['clone_id'] for row in self.show('list')])
        self.assertEqual({'OK'}, {row['result']
                                  for row in self.show('check', 'web')})

    def test_dry_run(self):
        self.assertIsNone(
            self.show('create', 'web', '--dry-run')['clone_id'])
        self.assertEqual(1, len(self.cloud.load_balancers))
        self.create()
        for argv in (['switch'], ['back', '--delete']):
            self.show(*argv, 'web', '--dry-run')
        self.assertEqual(self.at(self.source), self.cloud.leads_to())
        self.show('switch', 'web')
        self.show('retire', 'web', '--dry-run')
        self.assertEqual(2, len(self.cloud.load_balancers))

    def test_by_dns(self):
        for each in list(self.cloud.floating_ips):
            del self.cloud.floating_ips[each]
        self.assertIn('DNS', self.fail('create', 'web'))
        self.create('--without-floating-ip')
        self.assertIn(self.clone['vip_address'], self.fail('switch', 'web'))
        self.assertIn('--without-floating-ip', self.fail('retire', 'web'))
        self.show('retire', 'web', '--without-floating-ip')
        self.assertEqual([self.clone['id']], list(self.cloud.load_balancers))

    def test_without_octavia(self):
        """Nothing of it, or of its database, is loaded."""
        loaded = subprocess.run(
            [sys.executable, '-c', 'import sys\n'
             'import octavia_hmsync.image.cli.clone\n'
             'print(*sys.modules)'], capture_output=True, text=True,
            check=True).stdout.split()
        self.assertEqual([], [
            name for name in loaded
            if name.split('.')[0] in ('octavia', 'oslo_db', 'sqlalchemy') or
            name == 'octavia_hmsync.compat'])


class Shell(app.App):
    """What these commands see of python-openstackclient's shell.

    Its entry points are read as that does once python-octaviaclient has named
    the group.
    """

    def __init__(self):
        super().__init__('openstack', '1', commandmanager.CommandManager(
            'openstack.load_balancer.v2'))
        self.client_manager = types.SimpleNamespace(
            sdk_connection=cloud.connect())


class TestOpenStackClient(CloneTestCase):
    """openstack loadbalancer clone ..., with the connection of its shell."""

    def run_command(self, *argv):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = Shell().run(['loadbalancer', 'clone', *argv])
            except SystemExit as e:
                code = e.code
        return code, out.getvalue(), err.getvalue()

    def test_there_and_back(self):
        self.switch()
        self.assertEqual(self.at(self.clone), self.cloud.leads_to())
        self.assertEqual('READY', self.show('back', 'web')['phase'])
        self.assertEqual(self.at(self.source), self.cloud.leads_to())
        self.show('switch', 'web')
        self.assertEqual('RETIRED', self.show('retire', 'web')['phase'])

    def test_cloud_is_an_option_of_the_shell(self):
        self.assertNotIn('--os-cloud', self.run_command(
            'create', '--help')[1])

    def test_same_commands(self):
        """The same as of octavia-hmsync."""
        self.assertEqual(
            {point.name.replace('image_', 'loadbalancer_'): point.value
             for point in metadata.entry_points(group='octavia_hmsync.cli')
             if point.name.startswith('image_clone_')},
            {point.name: point.value for point in metadata.entry_points(
                group='openstack.load_balancer.v2')
             if point.value.startswith('octavia_hmsync.')})


class TestRefused(CloneTestCase):
    """What is refused before anything is made."""

    def check_refused(self, text, *argv):
        self.assertIn(text, self.fail('create', 'web', *argv))
        self.assertEqual(0, self.count('POST', '/lbaas/loadbalancers'))
        code, out, _err = self.run_command('check', 'web')
        self.assertEqual(1, code)
        self.assertIn('REFUSED', out)

    def test_quota(self):
        self.cloud.quota['member'] = 7
        self.check_refused('4 of 7 in use, 4 more needed of the kind member')

    def test_status(self):
        self.source['provisioning_status'] = 'ERROR'
        self.check_refused('it must be ACTIVE')

    def test_unknown_attribute(self):
        self.source['colour'] = 'blue'
        self.check_refused('colour of load balancer')
        self.create('--leave-out', 'colour')

    def test_owner(self):
        """One that a controller looks for by name, tag or id."""
        for values, text in (
                ({'name': 'kube_service_prod_shop_web'},
                 'load-balancer-id of the Service'),
                ({'tags': ['kube_service_prod_shop_web']},
                 'makes another one, or fails'),
                ({'name': 'kube_ingress_prod_shop_web'},
                 'stop each change of the Ingress'),
                ({'name': 'k8s-clusterapi-cluster-default-c1-kubeapi'},
                 'leads the floating IP back'),
                ({'name': 'k8s-c1-api_lb-hx5ozg-loadbalancer-x3qwbzfyt7aq'},
                 'makes a third one')):
            self.source.update({'name': 'web', 'tags': [], **values})
            self.assertIn(text, self.fail('create', self.source['id']))
            self.assertEqual(0, self.count('POST', '/lbaas/loadbalancers'))
        code, _out, err = self.run_command('create', self.source['id'],
                                           '--owner-is-stopped')
        self.assertEqual(0, code, err)
        self.assertIn('keep that stopped until the end; then the stack',
                      err)
        self.show('switch', self.source['id'])
        code, _out, err = self.run_command('retire', self.source['id'])
        self.assertEqual(0, code, err)
        self.assertIn('is one of Heat (or Magnum by it) now: the stack', err)

    def test_nobodys(self):
        """Who may go by the name or the id is told."""
        for name in ('web', 'web-prod-loadbalancer', 'kube-service', ''):
            self.source.update(name=name, description='', tags=['shop'])
            rows = {row['check']: row for row in self.show(
                'check', self.source['id'])}
            self.assertEqual('NOTE', rows['owner']['result'])
            self.assertIn('finds two until "retire"',
                          rows['owner']['detail'])
        rows = {row['check']: row for row in self.show(
            'check', self.source['id'], '--name', 'other')}
        self.assertNotIn('finds two', rows['owner']['detail'])

    def test_name_in_capitals(self):
        """On MariaDB the API finds it, too."""
        examples.make(self.cloud, name='WEB')
        self.create()
        self.assertEqual(self.source['id'],
                         self.show('create', 'web')['loadbalancer_id'])

    def test_clone_of_a_clone(self):
        self.create()
        code, out, err = self.run_command('create', self.clone['id'])
        # It is the same pair.
        self.assertEqual(0, code, err)
        self.assertEqual(2, len(self.cloud.load_balancers))

    def test_unknown_load_balancer(self):
        self.assertIn('There is no load balancer nobody',
                      self.fail('switch', 'nobody'))

    def test_ambiguous_name(self):
        examples.make(self.cloud)
        self.assertIn('more than one load balancer web',
                      self.fail('create', 'web'))

    def test_no_credentials(self):
        self.assertIn('--os-cloud', self.fail('list', '--os-cloud', 'none'))


class TestFaults(CloneTestCase):
    """What goes wrong half-way."""

    def fault(self, method, pattern, act, times=1):
        left = [times]

        def run(now, path):
            if now == method and pattern in path and left[0]:
                left[0] -= 1
                return act()
            return None

        self.cloud.faults.append(run)

    @staticmethod
    def lose():
        return 'lose'

    @staticmethod
    def refuse(status, text='no'):
        def act():
            raise fake_cloud.Answer(status, text)
        return act

    def check_nothing_left(self):
        self.assertEqual([self.source['id']],
                         list(self.cloud.load_balancers))
        self.assertEqual(self.at(self.source), self.cloud.leads_to())

    def test_build_fails(self):
        self.cloud.fails_to_build = True
        self.assertIn('could not build it', self.fail('create', 'web'))
        self.check_nothing_left()

    def test_not_equal(self):
        def change():
            for pool in self.cloud.pools.values():
                if pool['_lb'] != self.source['id']:
                    pool['lb_algorithm'] = 'SOURCE_IP_PORT'

        self.fault('PUT', '/pools/', change)
        self.assertIn("lb_algorithm is 'SOURCE_IP_PORT', not 'ROUND_ROBIN'",
                      self.fail('create', 'web'))
        self.check_nothing_left()

    def test_refused_by_the_api(self):
        self.fault('POST', 'loadbalancers', self.refuse(403, 'Quota met.'))
        self.assertIn('Octavia answers HTTP 403, Quota met',
                      self.fail('create', 'web'))
        self.check_nothing_left()

    def test_answer_of_the_creation_is_lost(self):
        self.fault('POST', 'loadbalancers', self.lose)
        self.assertEqual('READY', self.create()['phase'])
        self.assertEqual(2, len(self.cloud.load_balancers))

    def test_died_at_each_request(self):
        """Whatever answers nothing: the same command again does the rest.

        Of questions of one kind it is the first: at the next one of them
        nothing has changed.
        """
        for command in (['create', 'web'], ['switch', 'web'],
                        ['back', 'web'], ['switch', 'web'],
                        ['retire', self.source['id']]):
            for number in range(1, 100):
                left = [number]
                asked = set()

                def die(method, path):
                    kind = re.sub('[0-9a-f-]{32,}', '', path)
                    if method == 'GET':
                        if kind in asked:
                            return
                        asked.add(kind)
                    left[0] -= 1
                    if left[0] == 0:
                        raise fake_cloud.Answer(503, 'down')

                self.cloud.faults[:] = [die]
                code, _out, err = self.run_command(*command)
                if left[0] > 0:
                    break
                # Where 503 is at the discovery of the API, nobody answers.
                self.assertEqual(
                    code, int('503' in err or 'no answer' in err), err)
            self.cloud.faults.clear()
            if command[0] != 'retire':
                self.assertEqual(0, code, err)
                self.assertEqual(2, len(self.cloud.load_balancers))
        self.assertEqual(1, len(self.cloud.load_balancers))
        clone, = self.cloud.load_balancers.values()
        self.assertEqual(['shop'], clone['tags'])
        self.assertEqual(self.at(clone), self.cloud.leads_to())

    def test_two_at_once(self):
        def another():
            made = self.cloud.create({
                'name': 'web', 'tags': [
                    f'octavia-hmsync:clone-of={self.source["id"]}']})
            made['created_at'] = '2025'
            self.cloud.settle()

        self.fault('POST', 'loadbalancers', another)
        self.assertIn('Another clone has been begun',
                      self.fail('create', 'web'))
        self.assertEqual(2, len(self.cloud.load_balancers))

    def test_members_are_worse(self):
        self.create()
        self.cloud.member_status = lambda load_balancer, member: (
            'ERROR' if load_balancer is self.clone and
            member['address'] == '10.1.0.5' else 'ONLINE')
        err = self.fail('switch', 'web', '--timeout', '30')
        self.assertIn('member 10.1.0.5:80 is ERROR there and ONLINE here',
                      err)
        self.assertGreaterEqual(self.clock.now, 30)
        self.assertEqual(self.at(self.source), self.cloud.leads_to())

    def test_members_come_up_late(self):
        self.create()
        self.cloud.member_status = lambda load_balancer, member: (
            'OFFLINE' if load_balancer is self.clone and self.clock.now < 9
            else 'ONLINE')
        self.assertEqual('SWITCHED', self.show('switch', 'web')['phase'])

    def test_clone_in_error(self):
        self.create()
        self.clone['provisioning_status'] = 'ERROR'
        self.assertIn('the clone is ERROR', self.fail('switch', 'web'))
        self.assertLess(self.clock.now, 30)
        self.assertEqual('FAILED', self.show('list')[0]['phase'])
        first = self.clone['id']
        self.assertNotEqual(first, self.create()['clone_id'])
        self.assertNotIn(first, self.cloud.load_balancers)

    def test_changed_since(self):
        self.create()
        self.clone['description'] = 'other'
        self.assertIn("description is 'other', not 'all of it'",
                      self.fail('switch', 'web'))
        self.show('switch', 'web', '--allow-differences')

    def test_somebody_else_moves_a_floating_ip(self):
        self.create()
        self.fault('PUT', self.fips[1], lambda: self.cloud.touch(
            self.fips[1], port_id=None, fixed_ip_address=None))
        err = self.fail('switch', 'web')
        self.assertIn('Another client has changed it', err)
        self.assertIn('All lead to their old targets', err)
        self.assertEqual(self.source['vip_address'],
                         self.cloud.leads_to()['203.0.113.1'])
        self.assertIsNone(self.cloud.leads_to()['203.0.113.2'])

    def test_one_is_in_the_way(self):
        self.create()
        self.cloud.add_floating_ip('203.0.113.9', self.clone)
        self.assertIn('already has a floating IP', self.fail('switch', 'web'))
        self.assertEqual({**self.at(self.source), '203.0.113.9':
                          self.clone['vip_address']}, self.cloud.leads_to())

    def test_one_cannot_be_moved_nor_the_other_back(self):
        self.create()

        def refuse(method, path):
            if method == 'PUT' and 'floatingips' in path and (
                    self.fips[1] in path or self.cloud.leads_to()[
                        '203.0.113.1'] != self.source['vip_address']):
                raise fake_cloud.Answer(409, 'no')

        self.cloud.faults.append(refuse)
        self.assertIn('could not be moved back: 203.0.113.1',
                      self.fail('switch', 'web'))
        self.assertEqual('SWITCHING', self.show('list')[0]['phase'])
        self.cloud.faults.clear()
        self.assertEqual('SWITCHED', self.show('switch', 'web')['phase'])

    def test_answer_of_a_move_is_lost(self):
        self.create()
        self.fault('PUT', self.fips[0], self.lose)
        self.assertEqual('SWITCHED', self.show('switch', 'web')['phase'])

    def test_tag_that_somebody_takes_away(self):
        self.create()
        late = self.cloud.add_floating_ip('203.0.113.3', self.source,
                                          network='second')
        tags = list(self.clone['tags'])
        seen = []

        def overwrite(method, path):
            # With what was read before ours was written.
            if (method == 'GET' and path.endswith(self.clone['id']) and
                    len(self.clone['tags']) > len(tags) and not seen):
                seen.append(True)
                self.clone['tags'] = [*tags, 'theirs']

        self.cloud.faults.append(overwrite)
        self.show('switch', 'web')
        self.assertEqual([True], seen)
        self.assertIn('theirs', self.clone['tags'])
        self.assertIn(f'octavia-hmsync:clone-fip={late}', self.clone['tags'])

    def test_back_while_it_is_retired(self):
        self.switch()
        self.fault('PUT', self.source['id'], lambda: [
            self.cloud.touch(each, port_id=self.source['vip_port_id'],
                             fixed_ip_address=self.source['vip_address'])
            for each in self.fips] and None)
        self.assertIn('has moved floating IPs to it again',
                      self.fail('retire', 'web'))
        self.assertEqual(['shop'], self.source['tags'])
        self.assertIn(self.source['id'], self.cloud.load_balancers)

    def test_retired_while_going_back(self):
        self.switch()
        self.fault('PUT', self.fips[0], lambda: self.source['tags'].append(
            f'octavia-hmsync:retired-by={self.clone["id"]}'))
        self.assertIn('is being deleted by another',
                      self.fail('back', 'web'))
        self.assertEqual(self.at(self.clone), self.cloud.leads_to())

    def test_not_yet(self):
        self.create()
        self.assertIn('Switch first', self.fail('retire', 'web'))

    def test_nonsense(self):
        self.fault('GET', 'loadbalancers', self.refuse(500, 'oops'))
        self.assertIn('Octavia answers HTTP 500, oops', self.fail('list'))

    def test_no_octavia(self):
        self.fault('GET', '/lb', self.refuse_discovery, 9)
        self.assertIn('Octavia', self.fail('list'))

    @staticmethod
    def refuse_discovery():
        raise fake_cloud.Answer(200, 'v2')

    def test_nobody_answers(self):
        self.fault('GET', 'loadbalancers', self.lose)
        self.assertIn('no answer of Octavia', self.fail('list'))

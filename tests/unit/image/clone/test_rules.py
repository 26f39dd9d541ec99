# SPDX-License-Identifier: Apache-2.0

"""What is pure of clones: trees, differences, rules, tags."""

import copy
import itertools

import hypothesis as hyp
from hypothesis import strategies as st
from octavia.api.v2.types import l7policy as l7policy_types
from octavia.api.v2.types import l7rule as l7rule_types
from octavia.api.v2.types import listener as listener_types
from octavia.api.v2.types import member as member_types
from octavia.api.v2.types import pool as pool_types
from octavia.common import config as octavia_config
from octavia.db import models
from octavia.db import prepare as octavia_prepare
from openstack.load_balancer.v2 import health_monitor
from openstack.load_balancer.v2 import l7_policy
from openstack.load_balancer.v2 import l7_rule
from openstack.load_balancer.v2 import listener
from openstack.load_balancer.v2 import load_balancer
from openstack.load_balancer.v2 import member
from openstack.load_balancer.v2 import pool
from oslotest import base

from octavia_hmsync.image.clone import attributes as attrs
from octavia_hmsync.image.clone import diff
from octavia_hmsync.image.clone import rules
from octavia_hmsync.image.clone import tags
from octavia_hmsync.image.clone import tree as trees
from tests.unit.image.clone import examples

KINDS = ((attrs.LOAD_BALANCER, load_balancer.LoadBalancer),
         (attrs.LISTENER, listener.Listener), (attrs.POOL, pool.Pool),
         (attrs.MEMBER, member.Member),
         (attrs.MONITOR, health_monitor.HealthMonitor),
         (attrs.POLICY, l7_policy.L7Policy), (attrs.RULE, l7_rule.L7Rule))
STATUSES = ('ONLINE', 'NO_MONITOR', 'DRAINING', 'DEGRADED', 'ERROR',
            'OFFLINE')


def build(request, ids):
    """Return the Tree that the API would show of a request."""
    request = copy.deepcopy(request)

    def common(raw):
        raw.setdefault('admin_state_up', True)
        return {'id': f'id-{next(ids)}', 'project_id': 'p', 'tags': [],
                'provisioning_status': 'ACTIVE',
                'operating_status': 'ONLINE', **raw}

    pools = [common(raw) for raw in request.pop('pools')]
    by_name = {raw['name']: raw['id'] for raw in pools}
    for raw in pools:
        raw['members'] = [common(each) for each in raw['members']]
        monitor = raw.pop('healthmonitor', None)
        raw['healthmonitor'] = common(monitor) if monitor else None
    listeners = [common(raw) for raw in request.pop('listeners')]
    for raw in listeners:
        default = raw.pop('default_pool', None)
        raw['default_pool_id'] = by_name[default['name']] if default else None
        raw['l7policies'] = [common(each) for each in
                             raw.get('l7policies', ())]
        for policy in raw['l7policies']:
            policy['rules'] = [common(each) for each in policy['rules']]
            redirect = policy.pop('redirect_pool', None)
            policy['redirect_pool_id'] = (by_name[redirect['name']]
                                          if redirect else None)
    root = common({'vip_network_id': 'net-1', **request})
    root.update(vip_address=f'10.0.0.{next(ids)}', vip_port_id='port')
    root['additional_vips'] = [
        {**each, 'ip_address': '10.0.1.1', 'port_id': 'port'}
        for each in root.get('additional_vips', ())]
    return trees.Tree(root, listeners, pools)


def make_rich(names=('blue', 'green', 'spare')):
    source = build(examples.RICH, itertools.count())
    for raw, name in zip(source.pools, names):
        raw['name'] = name
    for raw in source.listeners:
        raw['l7policies'] = trees.by_position(raw['l7policies'])
    return source


def make_clone(source, renamed=True):
    clone = build(trees.build_request(source, None, ['fip']),
                  itertools.count(1000))
    if renamed:
        for raw in clone.pools:
            raw['name'] = trees.find_renames(source, clone).get(
                raw['id'], raw['name'])
    return clone


class TestAttributes(base.BaseTestCase):

    def test_the_sdk_has_no_others(self):
        """One that a later release shows is either copied, or known."""
        for kind, sdk_class in KINDS:
            body = type(vars(load_balancer.LoadBalancer)['provider'])
            names = {each.name for each in vars(sdk_class).values()
                     if isinstance(each, body)}
            self.assertIn('operating_status', names)
            self.assertEqual(set(), names - kind.known, kind.name)

    def test_none_has_two_ways(self):
        for kind, _class in KINDS:
            for one, other in itertools.combinations(
                    (set(kind.copied), kind.own, kind.nested), 2):
                self.assertEqual(set(), one & other, kind.name)

    def test_what_octavia_fills_in(self):
        """Each attribute that a row may lack, and a new one has."""
        self.assertTrue(octavia_config.cfg.CONF.api_settings)
        for kind, model, prepare, request, given in (
                (attrs.LISTENER, models.Listener,
                 lambda raw: octavia_prepare.create_listener(raw, 'lb'),
                 listener_types.ListenerSingleCreate,
                 {'protocol': 'TERMINATED_HTTPS', 'protocol_port': 443}),
                (attrs.POOL, models.Pool, octavia_prepare.create_pool,
                 pool_types.PoolSingleCreate,
                 {'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN',
                  'tls_enabled': True}),
                (attrs.MEMBER, models.Member,
                 lambda raw: octavia_prepare.create_member(raw, 'pool'),
                 member_types.MemberSingleCreate,
                 {'address': '192.0.2.1', 'protocol_port': 80}),
                (attrs.POLICY, models.L7Policy,
                 lambda raw: octavia_prepare.create_l7policy(raw, 'lb', 'l'),
                 l7policy_types.L7PolicySingleCreate,
                 {'action': 'REDIRECT_TO_URL', 'redirect_url': 'http://a'}),
                (attrs.RULE, models.L7Rule,
                 lambda raw: octavia_prepare.create_l7rule(raw, 'policy'),
                 l7rule_types.L7RuleSingleCreate,
                 {'type': 'PATH', 'compare_type': 'EQUAL_TO',
                  'value': 'a'})):
            made = prepare(request(**given).to_dict(render_unsets=True))
            self.assertEqual({
                name for name in kind.copied
                if name not in given and made.get(name) not in (None, []) and
                model.__table__.columns[name].nullable}, set(kind.filled),
                kind.name)

    def test_unknown(self):
        self.assertEqual(['colour'], attrs.unknown(attrs.RULE, {
            'type': 'PATH', 'colour': 'red', 'off': False, 'none': None,
            'empty': [], 'nothing': {}}))

    def test_found_in_the_whole_tree(self):
        source = make_rich()
        self.assertEqual([], trees.find_unknown(source))
        for _kind, raw in trees.walk(source):
            raw['new'] = 1
        self.assertEqual(list(trees.count(source).elements()), sorted(
            (kind for kind, _id, _name in trees.find_unknown(source)),
            key=list(trees.count(source)).index))


class TestClones(base.BaseTestCase):

    @hyp.given(st.lists(st.sampled_from(('a', 'b', '')), min_size=3,
                        max_size=3))
    def test_equal_with_any_names(self, names):
        source = make_rich(names)
        request = trees.build_request(source, None, [])
        given = [raw['name'] for raw in request['pools']]
        self.assertEqual(len(given), len(set(given)))
        self.assertNotIn('', given)
        self.assertEqual([], diff.compare(source, make_clone(source, False)))
        clone = make_clone(source)
        self.assertEqual([], diff.compare(source, clone))
        self.assertEqual({}, trees.find_renames(source, clone))
        self.assertEqual(sorted(names),
                         sorted(raw['name'] for raw in clone.pools))

    def test_each_attribute_is_compared(self):
        """Whatever of it changes is found, in any object."""
        source = make_rich()
        for number, (kind, ours) in enumerate(trees.walk(source)):
            for name in kind.copied:
                clone = make_clone(source)
                _kind, raw = list(trees.walk(clone))[number]
                if name in kind.filled and not attrs.is_set(ours.get(name)):
                    # Octavia has made something of nothing.
                    ours[name] = 54321
                if kind is attrs.POOL and name == 'name':
                    # Told apart by it where nothing refers to it.
                    continue
                raw[name] = ['new'] if name == 'tags' else 12345
                self.assertNotEqual([], diff.compare(source, clone),
                                    f'{kind.name} {name}')

    def test_each_reference_is_compared(self):
        source = make_rich()
        for path in ('default_pool_id', 'redirect_pool_id'):
            clone = make_clone(source)
            raw = clone.listeners[1] if path == 'default_pool_id' else (
                trees.by_position(clone.listeners[0]['l7policies'])[1])
            raw[path] = clone.pools[2]['id']
            self.assertNotEqual([], diff.compare(source, clone), path)

    def test_each_object_is_missed(self):
        for act in (lambda tree: tree.listeners.pop(),
                    lambda tree: tree.pools.pop(),
                    lambda tree: tree.pools[0]['members'].pop(),
                    lambda tree: tree.pools[0].update(healthmonitor=None),
                    lambda tree: tree.listeners[0]['l7policies'].pop(),
                    lambda tree: tree.root['additional_vips'].pop()):
            source = make_rich()
            clone = make_clone(source)
            act(clone)
            self.assertNotEqual([], diff.compare(source, clone))
            clone = make_clone(source)
            act(source)
            self.assertNotEqual([], diff.compare(source, clone))

    def test_what_is_its_own(self):
        source = make_rich()
        clone = make_clone(source)
        clone.root.update(vip_address='10.9.9.9', name='other')
        clone.root['tags'] = clone.root['tags'][::-1]
        self.assertEqual([], diff.compare(source, clone, 'other'))

    def test_request(self):
        source = make_rich()
        source.pools[1]['members'][0]['vnic_type'] = 'direct'
        source.pools[0]['members'][0]['vnic_type'] = 'normal'
        request = trees.build_request(source, 'new', ['fip'])
        self.assertEqual('new', request['name'])
        for name in ('vip_network_id', 'vip_address', 'id'):
            self.assertNotIn(name, request)
        self.assertEqual([{'subnet_id': 'subnet-2'}],
                         request['additional_vips'])
        self.assertTrue(request['pools'][1]['members'][0]['request_sriov'])
        self.assertNotIn('request_sriov', request['pools'][0]['members'][0])
        for said, sent in ((['http/1.1'], ['http/1.1']),
                           (None, ['http/1.1', 'http/1.0']),
                           ([], ['http/1.1', 'http/1.0'])):
            source.listeners[1]['alpn_protocols'] = said
            request = trees.build_request(source, None, [])
            self.assertEqual(sent,
                             request['listeners'][1]['alpn_protocols'])
        self.assertEqual([1, 2], [each['position'] for each in
                                  request['listeners'][0]['l7policies']])


class TestRules(base.BaseTestCase):

    @hyp.given(st.lists(st.sampled_from(STATUSES), min_size=4, max_size=4),
               st.lists(st.sampled_from(STATUSES), min_size=4, max_size=4))
    def test_no_worse(self, ours, theirs):
        """Refused if, and only if, one member serves worse."""
        source, clone = make_rich(), None
        clone = make_clone(source)
        for tree, statuses in ((source, ours), (clone, theirs)):
            members = [raw for raw in tree.pools[0]['members'] +
                       tree.pools[1]['members']]
            for raw, status in zip(members, statuses):
                raw['operating_status'] = status
        self.assertEqual(
            any(rules.rank({'operating_status': mine}) >
                rules.rank({'operating_status': its})
                for mine, its in zip(ours, theirs)),
            bool(rules.find_worse(source, clone)))

    def test_pending(self):
        source = make_rich()
        clone = make_clone(source)
        clone.root['provisioning_status'] = 'PENDING_UPDATE'
        self.assertEqual(['the clone is PENDING_UPDATE'],
                         rules.find_worse(source, clone))

    def test_missing_member(self):
        source = make_rich()
        clone = make_clone(source)
        del clone.pools[1]['members'][0]
        self.assertEqual(
            ['member 10.1.0.5:80 is missing there and ONLINE here'],
            rules.find_worse(source, clone))

    @hyp.given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 2)),
                        min_size=1), st.integers(1, 60))
    def test_drained(self, steps, settle):
        """Only after so many seconds without any connection."""
        time, samples = 0, []
        for step, connections in steps:
            time += step
            samples.append((time, connections))
        quiet = list(itertools.takewhile(lambda each: not each[1],
                                         reversed(samples)))
        self.assertEqual(
            bool(quiet) and samples[-1][0] - quiet[-1][0] >= settle,
            rules.is_drained(samples, settle))

    def test_phases(self):
        for arguments, phase in (
                (('ACTIVE', 'ACTIVE', False, True, 1, 0), 'READY'),
                (('ACTIVE', 'ACTIVE', False, True, 0, 0), 'READY'),
                (('ACTIVE', 'ACTIVE', False, True, 1, 1), 'SWITCHING'),
                (('ACTIVE', 'ACTIVE', False, True, 0, 1), 'SWITCHED'),
                (('PENDING_UPDATE', 'ERROR', False, True, 0, 1), 'SWITCHED'),
                (('PENDING_CREATE', 'ACTIVE', False, True, 1, 0),
                 'CREATING'),
                (('ACTIVE', 'ACTIVE', False, False, 1, 0), 'CREATING'),
                (('ACTIVE', 'ACTIVE', True, True, 0, 1), 'RETIRING'),
                (('ACTIVE', 'PENDING_DELETE', False, True, 0, 1),
                 'RETIRING'),
                (('ACTIVE', None, False, True, 0, 1), 'RETIRED'),
                (('ERROR', 'ACTIVE', False, True, 1, 0), 'FAILED'),
                (('PENDING_DELETE', 'ACTIVE', False, True, 1, 0),
                 'DELETING')):
            self.assertEqual(phase, rules.find_phase(*arguments), arguments)


class TestTags(base.BaseTestCase):

    @hyp.given(st.lists(st.text()), st.lists(st.uuids().map(str)))
    def test_others_stay(self, others, ids):
        others = [tag for tag in dict.fromkeys(others)
                  if not tags.is_ours(tag)]
        ours = [tags.make(tags.FLOATING_IP, each)
                for each in dict.fromkeys(ids)]
        changed = tags.change(others, ours)
        self.assertEqual(others, tags.foreign(changed))
        self.assertEqual(list(dict.fromkeys(ids)),
                         tags.values(changed, tags.FLOATING_IP))
        self.assertEqual(changed, tags.change(changed, ours))
        self.assertEqual(others, tags.change(changed, remove=ours))

    def test_the_longest_fits(self):
        self.assertLess(max(len(tags.make(word, 36 * 'x')) for word in
                            (tags.CLONE_OF, tags.FLOATING_IP,
                             tags.RETIRED_BY)), 255)

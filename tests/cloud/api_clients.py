# SPDX-License-Identifier: Apache-2.0

"""How the clients that tenants have use Octavia's API, call by call.

The commands of python-octaviaclient and openstacksdk are the real ones, as is
the library that Heat has. Of Heat, Terraform and cloud-provider-openstack the
order of their calls is here: what they wait for, what they try again, and
which status they give up at.
"""

import dataclasses
import itertools
import time

from keystoneauth1 import noauth
from keystoneauth1 import session as ksa_session
from octaviaclient.api import exceptions as client_exceptions
from octaviaclient.api.v2 import octavia
import openstack
from osc_lib import exceptions as osc_exceptions
import requests

from tests.cloud import openstack_commands

ACTIVE = 'ACTIVE'
DELETED = 'DELETED'
ERROR = 'ERROR'
_PENDING = ('PENDING_CREATE', 'PENDING_UPDATE')
# Looks after which a client gives up.
_PATIENCE = 600


class GaveUp(Exception):
    """A client was shown what it does not go on after."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a client works.

    :param url: of Octavia.
    :param network_url: of Neutron.
    :param subnet_id: where the VIP is.
    :param provider: of its load balancers.
    :param pause: seconds between two looks of a client that waits.
    :param populate: called with the id of a new load balancer, before
                     anything is asked of its amphorae.
    """

    url: str
    network_url: str
    subnet_id: str
    provider: str
    pause: float
    populate: object = staticmethod(lambda load_balancer_id: None)


class OctaviaCommands:
    """openstack loadbalancer ... --wait, one after the other."""

    name = 'commands'

    def walk(self, place):
        with openstack_commands.Commands(
                place.url, place.network_url, place.pause) as commands:
            self._run = commands.run
            self._ask = commands.ask
            self._walk(place)

    def _create(self, kind, *arguments):
        return self._ask(*kind, 'create', *arguments, '--wait')['id']

    def _walk(self, place):
        lb = self._create((), '--name', 'web', '--vip-subnet-id',
                          place.subnet_id, '--provider', place.provider,
                          '--tag', 'one')
        place.populate(lb)
        listener = self._create(
            ('listener',), '--name', 'http', '--protocol', 'HTTP',
            '--protocol-port', '80', lb)
        pool = self._create(
            ('pool',), '--name', 'pool', '--protocol', 'HTTP',
            '--lb-algorithm', 'ROUND_ROBIN', '--listener', listener,
            '--session-persistence', 'type=SOURCE_IP')
        other = self._create(
            ('pool',), '--name', 'other', '--protocol', 'HTTP',
            '--lb-algorithm', 'LEAST_CONNECTIONS', '--loadbalancer', lb)
        member = self._create(
            ('member',), '--name', 'm1', '--address', '10.1.0.201',
            '--protocol-port', '80', pool)
        self._run('member', 'set', '--weight', '5', '--wait', pool, member)
        monitor = self._create(
            ('healthmonitor',), '--delay', '5', '--timeout', '3',
            '--max-retries', '2', '--type', 'HTTP', pool)
        self._run('healthmonitor', 'set', '--delay', '7', '--wait', monitor)
        policy = self._create(
            ('l7policy',), '--action', 'REDIRECT_TO_POOL', '--redirect-pool',
            other, listener)
        rule = self._create(
            ('l7rule',), '--type', 'PATH', '--compare-type', 'STARTS_WITH',
            '--value', '/api', policy)
        self._run('l7rule', 'set', '--value', '/v2', '--wait', policy, rule)
        self._run('set', '--name', 'web2', '--tag', 'two', '--wait', lb)
        self._run('listener', 'set', '--connection-limit', '777', '--wait',
                  listener)
        self._run('stats', 'show', lb)
        self._run('listener', 'stats', 'show', listener)
        self._run('status', 'show', lb)
        self._fail_over(lb)
        self._run('l7rule', 'delete', '--wait', policy, rule)
        self._run('healthmonitor', 'delete', '--wait', monitor)
        self._run('member', 'delete', '--wait', pool, member)
        self._run('listener', 'delete', '--wait', listener)
        self._run('delete', '--cascade', '--wait', lb)

    def _fail_over(self, lb):
        """Replace amphorae as scripts do, each when the last one is there."""
        amphorae = self._ask('amphora', 'list', '--loadbalancer', lb)
        for found in amphorae:
            self._run('amphora', 'failover', '--wait', found['id'])
        self._run('failover', '--wait', lb)


class SDK:
    """openstacksdk, as Ansible's modules and scripts use it."""

    name = 'openstacksdk'

    def walk(self, place):
        with openstack.connect(
                load_envvars=False, load_yaml_config=False, auth_type='none',
                auth={'endpoint': place.url},
                load_balancer_endpoint_override=place.url) as connection:
            self._walk(connection.load_balancer, place)

    def _walk(self, api, place):
        def wait():
            api.wait_for_load_balancer(lb.id, interval=place.pause,
                                       wait=_PATIENCE)

        lb = api.create_load_balancer(
            name='sdk', vip_subnet_id=place.subnet_id,
            provider=place.provider)
        wait()
        listener = api.create_listener(
            name='http', protocol='HTTP', protocol_port=80,
            load_balancer_id=lb.id)
        wait()
        pool = api.create_pool(name='pool', protocol='HTTP',
                               lb_algorithm='ROUND_ROBIN',
                               listener_id=listener.id)
        wait()
        members = []
        for number in (1, 2):
            members.append(api.create_member(
                pool.id, name=f'm{number}', address=f'10.1.0.20{number}',
                protocol_port=80))
            wait()
        monitor = api.create_health_monitor(
            pool_id=pool.id, type='TCP', delay=5, timeout=3, max_retries=2)
        wait()
        api.update_member(members[0].id, pool.id, weight=0)
        wait()
        api.update_listener(listener.id, timeout_client_data=60000)
        wait()
        self._list(api, lb.id)
        api.failover_load_balancer(lb.id)
        wait()
        api.delete_health_monitor(monitor.id)
        wait()
        api.delete_load_balancer(lb.id, cascade=True)
        api.wait_for_delete(lb, interval=place.pause, wait=_PATIENCE)

    @staticmethod
    def _list(api, load_balancer_id):
        for listed in (api.load_balancers(name='sdk'),
                       api.listeners(load_balancer_id=load_balancer_id),
                       api.pools(loadbalancer_id=load_balancer_id)):
            list(listed)
        api.get_load_balancer_statistics(load_balancer_id)


class _Graph:
    """A client that works at all of a tree whose parents are there.

    Each resource is a generator that pauses when it has to wait; several take
    turns, as the threads of Terraform and the tasks of Heat do.
    """

    @staticmethod
    def _together(place, *tasks):
        running = list(tasks)
        for _ in range(_PATIENCE):
            running = [task for task in running
                       if next(task, place) is not place]
            if not running:
                return
            time.sleep(place.pause)
        raise GaveUp('It takes too long.')

    def walk(self, place):
        def create(number, *kinds):
            self._together(place, *itertools.chain.from_iterable(
                (self._create(made, kind, f'{kind}{each}', make)
                 for kind, make in kinds) for each in range(number)))

        made = {}
        self._prepare(place)
        create(1, ('loadbalancer', lambda _: {
            'name': self.name, 'vip_subnet_id': place.subnet_id,
            'provider': place.provider}))
        lb = made['loadbalancer0']
        create(2, ('listener', lambda name: {
            'loadbalancer_id': lb, 'name': name, 'protocol': 'HTTP',
            'protocol_port': 80 + int(name[-1])}), ('pool', lambda name: {
                'loadbalancer_id': lb, 'name': name, 'protocol': 'HTTP',
                'lb_algorithm': 'ROUND_ROBIN'}))
        create(2, ('member', lambda name: {
            'pool': made[f'pool{name[-1]}'], 'name': name,
            'address': f'10.1.0.20{name[-1]}', 'protocol_port': 80}),
            ('healthmonitor', lambda name: {
                'pool_id': made[f'pool{name[-1]}'], 'type': 'TCP',
                'delay': 5, 'timeout': 3, 'max_retries': 2}),
            ('l7policy', lambda name: {
                'listener_id': made[f'listener{name[-1]}'], 'name': name,
                'action': 'REDIRECT_TO_POOL', 'redirect_pool_id':
                made[f'pool{name[-1]}']}))
        self._together(
            place, self._update(made, 'loadbalancer', 'loadbalancer0',
                                {'description': 'changed'}),
            self._update(made, 'listener', 'listener0',
                         {'default_pool_id': made['pool0']}),
            self._update(made, 'pool', 'pool1',
                         {'lb_algorithm': 'LEAST_CONNECTIONS'}))
        for kinds in (('l7policy', 'healthmonitor', 'member'),
                      ('listener', 'pool'), ('loadbalancer',)):
            self._together(place, *(
                self._delete(made, kind, name) for kind in kinds
                for name in sorted(made) if name.startswith(kind)))


class Heat(_Graph):
    """Resources of a stack: octavia_base.OctaviaBase of Heat."""

    name = 'heat'

    def _prepare(self, place):
        session = ksa_session.Session(auth=noauth.NoAuth())
        self._api = octavia.OctaviaAPI(
            session=session, service_type='load-balancer',
            endpoint=place.url)
        self._parents = {}

    def _call(self, what, kind, *args, **kwargs):
        """Call Heat's library; returns None where Octavia is busy."""
        names = {'healthmonitor': 'health_monitor',
                 'loadbalancer': 'load_balancer'}
        try:
            return getattr(self._api, f'{names.get(kind, kind)}_{what}')(
                *args, **kwargs) or {}
        except client_exceptions.OctaviaClientException as e:
            if e.code == 409:
                return None
            raise

    def _find(self, made, kind, name):
        """The arguments with which one is named."""
        if name in self._parents:
            # Of members both, in an order that depends on the call.
            return (self._parents[name], made[name])
        return (made[name],)

    def _is(self, made, kind, name, status):
        found = self._call('show', kind, *self._find(made, kind, name))
        if found['provisioning_status'] == ERROR:
            raise GaveUp(f'{name} is in ERROR.')
        return found['provisioning_status'] == status

    def _create(self, made, kind, name, make):
        body = make(name)
        parent = [body.pop('pool')] if 'pool' in body else []
        found = None
        while found is None:
            found = self._call('create', kind, *parent, json={kind: body})
            if found is None:
                yield
        made[name] = found[kind]['id']
        if parent:
            self._parents[name] = parent[0]
        while not self._is(made, kind, name, ACTIVE):
            yield

    def _update(self, made, kind, name, change):
        while self._call('set', kind, made[name],
                         json={kind: change}) is None:
            yield
        while not self._is(made, kind, name, ACTIVE):
            yield

    def _delete(self, made, kind, name):
        try:
            while self._call('delete', kind,
                             *self._find(made, kind, name)) is None:
                self._is(made, kind, name, DELETED)
                yield
            while not self._is(made, kind, name, DELETED):
                yield
        except osc_exceptions.NotFound:
            pass
        except client_exceptions.OctaviaClientException as e:
            if e.code != 404:
                raise


class _Requests:
    """A client of HTTP, as gophercloud is one."""

    def __init__(self, place):
        self._url = f'{place.url}/v2.0/lbaas'

    def ask(self, method, path, code, body=None, retried=()):
        """Ask for something.

        :param code: the status that there should be.
        :param retried: other ones, for which None is returned.
        """
        answer = requests.request(
            method, f'{self._url}/{path}', json=body, timeout=60,
            headers={'X-Auth-Token': 'token'})
        if answer.status_code in retried:
            return None
        if answer.status_code != code:
            raise GaveUp(f'{method} {path}: {answer.status_code} '
                         f'{answer.text}')
        return answer.json() if answer.content else {}

    def show(self, kind, path):
        """Return an attribute of what is there; None if it is not."""
        found = self.ask('GET', path, 200, retried=(404,))
        return found and found[kind]


class Terraform(_Graph):
    """Resources of its OpenStack provider: lb_v2_shared.go."""

    name = 'terraform'
    _RETRIED = (409, 500, 502, 503, 504)

    def _prepare(self, place):
        self._api = _Requests(place)
        self._paths = {}

    def _wait_for_load_balancer(self, made):
        """Wait until it is ACTIVE: any status but pending ones is an end."""
        if 'loadbalancer0' not in made:
            return
        path = f'loadbalancers/{made["loadbalancer0"]}'
        while True:
            status = self._api.show('loadbalancer', path)[
                'provisioning_status']
            if status == ACTIVE:
                return
            if status not in _PENDING:
                raise GaveUp(f'The load balancer is {status}.')
            yield

    def _wait_for(self, made, kind, name):
        while True:
            yield from self._wait_for_load_balancer(made)
            status = self._api.show(kind, self._paths[name])[
                'provisioning_status']
            if status == ACTIVE:
                return
            if status not in _PENDING:
                raise GaveUp(f'{name} is {status}.')
            yield

    def _repeat(self, method, path, code, body=None):
        while True:
            found = self._api.ask(method, path, code, body, self._RETRIED)
            if found is not None:
                return found
            yield

    def _create(self, made, kind, name, make):
        body = make(name)
        path = {'l7policy': 'l7policies', 'member':
                f'pools/{body.pop("pool", None)}/members'}.get(
                    kind, f'{kind}s')
        yield from self._wait_for_load_balancer(made)
        found = yield from self._repeat('POST', path, 201, {kind: body})
        made[name] = found[kind]['id']
        self._paths[name] = f'{path}/{made[name]}'
        yield from self._wait_for(made, kind, name)

    def _update(self, made, kind, name, change):
        yield from self._wait_for(made, kind, name)
        yield from self._repeat('PUT', self._paths[name], 200,
                                {kind: change})
        yield from self._wait_for(made, kind, name)

    def _delete(self, made, kind, name):
        if kind != 'loadbalancer':
            yield from self._wait_for_load_balancer(made)
        yield from self._repeat('DELETE', self._paths[name], 204)
        while True:
            found = self._api.show(kind, self._paths[name])
            if found is None or found['provisioning_status'] == DELETED:
                return
            yield


class CloudProvider:
    """A Service of Kubernetes: loadbalancer.go of cloud-provider-openstack.

    It makes a load balancer with everything at once, goes on with one part
    after the other, and gives up at ERROR.
    """

    name = 'kubernetes'

    def walk(self, place, listeners=8):
        self._place = place
        self._api = _Requests(place)
        found = self._api.ask('POST', 'loadbalancers', 201, {'loadbalancer': {
            'name': 'kube_service_c_default_web', 'provider': place.provider,
            'vip_subnet_id': place.subnet_id,
            'tags': ['kube_service_c_default_web'],
            'listeners': [self._listener(number)
                          for number in range(listeners)]}})
        self._path = f'loadbalancers/{found["loadbalancer"]["id"]}'
        self._wait()
        self._status()
        self._share()
        self._change()
        self._api.ask('DELETE', f'{self._path}?cascade=true', 204)
        for _ in range(_PATIENCE):
            if self._api.show('loadbalancer', self._path) is None:
                return
            time.sleep(place.pause)
        raise GaveUp('It is not deleted.')

    @staticmethod
    def _listener(number):
        port = 8000 + number
        return {
            'name': f'listener_{number}', 'protocol': 'TCP',
            'protocol_port': port, 'allowed_cidrs': ['0.0.0.0/0'],
            'default_pool': {
                'name': f'pool_{number}', 'protocol': 'TCP',
                'lb_algorithm': 'ROUND_ROBIN',
                'healthmonitor': {
                    'name': f'monitor_{number}', 'type': 'TCP', 'delay': 60,
                    'timeout': 30, 'max_retries': 1},
                'members': [{'name': f'node{each}', 'protocol_port': port,
                             'address': f'10.1.0.20{each}'}
                            for each in (1, 2)]}}

    def _wait(self):
        for _ in range(_PATIENCE):
            status = self._api.show('loadbalancer', self._path)[
                'provisioning_status']
            if status == ACTIVE:
                return
            if status == ERROR:
                raise GaveUp('The load balancer has gone into ERROR.')
            time.sleep(self._place.pause)
        raise GaveUp('It is not ACTIVE.')

    def _do(self, method, path, code, body=None):
        found = self._api.ask(method, path, code, body)
        self._wait()
        return found

    def _id(self):
        return self._path.partition('/')[2]

    def _status(self):
        """What its controller and its operators look at."""
        self._api.ask('GET', f'{self._path}/status', 200)
        self._api.ask('GET', f'{self._path}/stats', 200)
        self._api.ask('GET', 'loadbalancers?tags=kube_service_c_default_web',
                      200)

    def _share(self):
        """Another Service uses the same load balancer."""
        self._do('PUT', self._path, 200, {'loadbalancer': {'tags': [
            'kube_service_c_default_web', 'kube_service_c_default_other']}})

    def _change(self):
        """Nodes come and go, and so do ports."""
        listed = self._api.ask(
            'GET', f'listeners?loadbalancer_id={self._id()}', 200)[
            'listeners']
        pools = self._api.ask(
            'GET', f'pools?loadbalancer_id={self._id()}', 200)['pools']
        for pool in sorted(pools, key=lambda each: each['name'])[:2]:
            self._api.ask('GET', f'pools/{pool["id"]}/members', 200)
            self._do('PUT', f'pools/{pool["id"]}/members', 202, {'members': [
                {'name': f'node{each}', 'address': f'10.1.0.20{each}',
                 'protocol_port': 8000} for each in (2, 3)]})
        self._do('PUT', f'listeners/{listed[0]["id"]}', 200, {'listener': {
            'allowed_cidrs': ['10.0.0.0/8'], 'timeout_client_data': 60000}})
        made = self._do('POST', 'listeners', 201, {'listener': {
            'loadbalancer_id': self._id(), 'name': 'more', 'protocol': 'TCP',
            'protocol_port': 9000}})['listener']
        pool = self._do('POST', 'pools', 201, {'pool': {
            'listener_id': made['id'], 'name': 'more', 'protocol': 'TCP',
            'lb_algorithm': 'SOURCE_IP'}})['pool']
        monitor = self._do('POST', 'healthmonitors', 201, {'healthmonitor': {
            'pool_id': pool['id'], 'type': 'TCP', 'delay': 60, 'timeout': 30,
            'max_retries': 1}})['healthmonitor']
        self._do('DELETE', f'healthmonitors/{monitor["id"]}', 204)
        self._do('DELETE', f'pools/{pool["id"]}', 204)
        self._do('DELETE', f'listeners/{made["id"]}', 204)


ALL = (OctaviaCommands, SDK, Heat, Terraform, CloudProvider)

# SPDX-License-Identifier: Apache-2.0

"""An image service, a Neutron, a Nova and a Cinder, as far as asked."""

import collections
import json
import logging
import threading
import types

import requests

from octavia_hmsync import compat

# How long the line of a request may be, as of gunicorn.
_LINE = 4094
LOG = logging.getLogger('octavia.image.drivers.glance_driver')


class ImageDriver:
    """An image service; images is {tag: id, or what is raised}."""

    def __init__(self, images):
        self.images = images
        self.asked = []

    def get_image_id_by_tag(self, tag, owner=None):
        self.asked.append((tag, owner))
        # As Octavia's own driver, at the end of each upgrade.
        LOG.warning('A single Glance image should be tagged with %s tag',
                    tag)
        image = self.images.get(tag) or compat.NoImage(tag=tag)
        if isinstance(image, threading.Event):
            image.wait(60)
        if isinstance(image, Exception):
            raise image
        return image


class Identity:
    """The projects of a Keystone.

    :ivar projects: {id: name}.
    :ivar error: an exception to raise, or None.
    """

    def __init__(self):
        self.projects = {}
        self.error = None
        self.asked = []

    def find_project(self, name_or_id):
        self.asked.append(name_or_id)
        if self.error is not None:
            raise self.error
        for project_id, name in self.projects.items():
            if name_or_id in (project_id, name):
                return types.SimpleNamespace(id=project_id, name=name)
        return None


class Neutron:
    """A connection to a Neutron that has some things.

    What a thing does not say is as Neutron makes it.

    :param limit: how many things an answer has at most.
    :param quota: limit, used and reserved of ports; None without them.
    """

    current_project_id = 'octavia'
    _DEFAULTS = {
        'ports': {'fixed_ips': []},
        'subnets': {'project_id': 'demo', 'ip_version': 4,
                    'allocation_pools': [{'start': '192.0.2.2',
                                          'end': '192.0.2.254'}]},
        'networks': {'subnets': [], 'admin_state_up': True,
                     'project_id': 'octavia', 'shared': False,
                     'port_security_enabled': True},
        'security_groups': {'name': '', 'project_id': 'octavia'},
        'policies': {}}

    def __init__(self, limit=1000, quota=None, **things):
        self.network = self
        self.identity = Identity()
        self.things = {**{kind: {} for kind in self._DEFAULTS}, **things}
        self.limit = limit
        self.quota = quota
        self.has_availability = True
        # Of subnets, addresses outside of their pools that are in use.
        self.more_used = 0
        self.asked = []
        self.errors = {}

    def get(self, path, params):
        self.asked.append(path)
        error = self.errors.get(path)
        if isinstance(error, Exception):
            raise error
        if len(requests.Request('GET', f'http://neutron/v2.0{path}',
                                params=params).prepare().url) > _LINE:
            error = 414
        if ('sort_key' in params) != ('sort_dir' in params):
            error = 400
        if error:
            return _respond(error, {})
        if path == '/quotas/octavia/details.json':
            return (_respond(200, {'quota': {'port': self.quota}})
                    if self.quota else _respond(404, {}))
        if path == '/network-ip-availabilities':
            return self._tell_used(params['network_id'])
        name = path.rpartition('/')[2].replace('-', '_')
        known = self.things[name]
        if known is None:
            return _respond(404, {})
        found = [{**self._DEFAULTS[name], **known[thing_id], 'id': thing_id}
                 for thing_id in sorted(known)]
        return _respond(200, {name: self._filter(found, params)})

    def _filter(self, things, params):
        for key in ('id', 'name'):
            if key in params:
                things = [thing for thing in things
                          if thing[key] in params[key]]
        if 'project_id' in params:
            things = [thing for thing in things
                      if thing['project_id'] == params['project_id']]
        if 'shared' in params:
            things = [thing for thing in things
                      if str(thing['shared']) == params['shared']]
        if 'fixed_ips' in params:
            things = [port for port in things if any(
                f'subnet_id={ip["subnet_id"]}' in params['fixed_ips']
                for ip in port['fixed_ips'])]
        things = [thing for thing in things
                  if thing['id'] > params.get('marker', '')]
        return things[:min(self.limit, params.get('limit', self.limit))]

    def _tell_used(self, network_ids):
        if not self.has_availability:
            return _respond(404, {})
        used = collections.Counter(
            ip['subnet_id'] for port in self.things['ports'].values()
            for ip in port.get('fixed_ips', ()))
        return _respond(200, {'network_ip_availabilities': [
            {'network_id': network_id, 'subnet_ip_availability': [
                {'subnet_id': subnet_id,
                 'used_ips': str(used[subnet_id] + self.more_used)}
                for subnet_id, subnet in self.things['subnets'].items()
                if subnet['network_id'] == network_id]}
            for network_id in network_ids]})


class Service:
    """A connection to a service that answers by the path.

    .errors is {path: a status or what is raised}.
    """

    current_project_id = 'octavia'

    def __init__(self):
        self.asked = []
        self.errors = {}

    def get(self, path, params):
        self.asked.append(path)
        error = self.errors.get(path)
        if isinstance(error, Exception):
            raise error
        if error:
            return _respond(error, {})
        answer = self._answer(path, params)
        return _respond(200, answer) if answer else _respond(404, {})


class Nova(Service):
    """A connection to a Nova.

    .groups is {id: policy} of server groups, .members {id: how many}, .zones
    {name: whether it is available}, .services a list of (host, zone, state,
    status), .limits {name: value}, .flavors {id: (vcpus, ram, disk)}, .keys
    names of keypairs, .page how many groups an answer has at most.
    """

    def __init__(self):
        super().__init__()
        self.compute = self
        self.groups = {}
        self.members = {}
        self.zones = {'nova': True, 'internal': True}
        self.services = [('compute1', 'nova', 'up', 'enabled'),
                         ('compute2', 'nova', 'up', 'enabled')]
        self.limits = {
            'maxTotalInstances': 10, 'totalInstancesUsed': 3,
            'maxTotalCores': -1, 'totalCoresUsed': 7,
            'maxTotalRAMSize': 4096, 'totalRAMUsed': 0,
            'maxServerGroupMembers': 10, 'maxPersonality': 5,
            'maxPersonalitySize': 10240}
        self.flavors = {}
        self.keys = set()
        self.page = 1000

    def _answer(self, path, params):
        kind, _, thing = path.lstrip('/').partition('/')
        if kind == 'limits':
            return {'limits': {'absolute': self.limits}}
        if kind == 'os-services':
            return {'services': [
                {'host': host, 'zone': zone, 'state': state,
                 'status': status}
                for host, zone, state, status in self.services]}
        if kind == 'os-availability-zone':
            return {'availabilityZoneInfo': _describe_zones(self.zones)}
        if kind == 'os-keypairs':
            return thing in self.keys and {'keypair': {'name': thing}}
        if kind == 'flavors':
            return thing in self.flavors and {'flavor': dict(
                zip(('vcpus', 'ram', 'disk'), self.flavors[thing]))}
        if thing:
            return thing in self.groups and {
                'server_group': self._describe(thing)}
        first = params['offset']
        return {'server_groups': [
            self._describe(i) for i in sorted(self.groups)[
                first:first + min(self.page, params['limit'])]]}

    def _describe(self, group_id):
        return {'id': group_id, 'policies': [self.groups[group_id]],
                'members': ['instance'] * self.members.get(group_id, 0)}


class Cinder(Service):
    """A connection to a Cinder.

    .types is {id: name}, .zones {name: whether it is available}, .quota
    {name: (limit, in use)}.
    """

    def __init__(self):
        super().__init__()
        self.block_storage = self
        self.types = {'type1': 'fast'}
        self.zones = {'nova': True}
        self.quota = {'volumes': (10, 3), 'gigabytes': (1000, 40),
                      'per_volume_gigabytes': (-1, 0)}

    def _answer(self, path, params):
        if path == '/types':
            return {'volume_types': [{'id': i, 'name': name}
                                     for i, name in self.types.items()]}
        if path == '/os-availability-zone':
            return {'availabilityZoneInfo': _describe_zones(self.zones)}
        return path == '/os-quota-sets/octavia' and {'quota_set': {
            'id': 'octavia', **{
                name: {'limit': limit, 'in_use': used, 'reserved': 0}
                for name, (limit, used) in self.quota.items()
                if params['usage']}}}


def _describe_zones(zones):
    return [{'zoneName': name, 'zoneState': {'available': available}}
            for name, available in zones.items()]


def _respond(status, body):
    response = requests.Response()
    response.status_code = status
    response.headers['Content-Type'] = 'application/json'
    response._content = json.dumps(body).encode()
    return response

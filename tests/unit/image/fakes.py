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

"""An image service, a Neutron and a Nova, as far as they are asked."""

import json
import logging
import threading

import requests

from octavia_hmsync import compat

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


class Neutron:
    """A connection to a Neutron that has some things.

    :param limit: how many things an answer has at most.
    :param quota: limit, used and reserved of ports; None without them.
    """

    current_project_id = 'octavia'

    def __init__(self, limit=1000, quota=None, **things):
        self.network = self
        self.things = {'ports': {}, 'subnets': {}, 'security_groups': {},
                       'policies': {}, **things}
        self.limit = limit
        self.quota = quota
        self.asked = []
        self.errors = {}

    def get(self, path, params):
        self.asked.append(path)
        error = self.errors.get(path)
        if isinstance(error, Exception):
            raise error
        if error:
            return _respond(error, {})
        if path == '/quotas/octavia/details.json':
            return (_respond(200, {'quota': {'port': self.quota}})
                    if self.quota else _respond(404, {}))
        name = path.rpartition('/')[2].replace('-', '_')
        known = self.things[name]
        if known is None:
            return _respond(404, {})
        found = [{'id': thing_id, **known[thing_id]}
                 for thing_id in params['id'] if thing_id in known]
        return _respond(200, {name: found[:self.limit]})


class Nova:
    """A connection to a Nova.

    .groups is {id: policy} of server groups, .services a list of (host, zone,
    state, status), .limits {name: value}, .flavors {id: (vcpus, ram)}, .page
    how many groups an answer has at most, .errors {path: a status or what is
    raised}.
    """

    def __init__(self):
        self.compute = self
        self.groups = {}
        self.services = [('compute1', 'nova', 'up', 'enabled'),
                         ('compute2', 'nova', 'up', 'enabled')]
        self.limits = {
            'maxTotalInstances': 10, 'totalInstancesUsed': 3,
            'maxTotalCores': -1, 'totalCoresUsed': 7,
            'maxTotalRAMSize': 4096, 'totalRAMUsed': 0}
        self.flavors = {}
        self.page = 1000
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

    def _answer(self, path, params):
        kind, _, thing = path.lstrip('/').partition('/')
        if kind == 'limits':
            return {'limits': {'absolute': self.limits}}
        if kind == 'os-services':
            return {'services': [
                {'host': host, 'zone': zone, 'state': state,
                 'status': status}
                for host, zone, state, status in self.services]}
        if kind == 'flavors':
            return thing in self.flavors and {'flavor': dict(
                zip(('vcpus', 'ram'), self.flavors[thing]))}
        if thing:
            return thing in self.groups and {
                'server_group': {'id': thing,
                                 'policies': [self.groups[thing]]}}
        first = params['offset']
        return {'server_groups': [
            {'id': i, 'policies': [self.groups[i]]} for i in sorted(
                self.groups)[first:first + min(self.page, params['limit'])]]}


def _respond(status, body):
    response = requests.Response()
    response.status_code = status
    response.headers['Content-Type'] = 'application/json'
    response._content = json.dumps(body).encode()
    return response

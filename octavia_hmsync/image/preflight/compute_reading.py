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

"""Reading what the checks of "image check" have to know of Nova."""

from openstack import exceptions as sdk_exc

from octavia_hmsync import exceptions
from octavia_hmsync.image import compute
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.mgmt_network import cloud

# Server groups in one request.
_PAGE = 500
# For so many each by itself; for more all that there are.
_FEW = 5
# What Nova calls the limits of a quota, and what is used of them.
_LIMITS = {'instances': ('maxTotalInstances', 'totalInstancesUsed'),
           'cores': ('maxTotalCores', 'totalCoresUsed'),
           'ram': ('maxTotalRAMSize', 'totalRAMUsed')}


class ComputeReader:
    """Asks Nova what there is of what is needed.

    :param conf: the oslo.config object of the connection.
    :param connection: see octavia_hmsync.image.compute.connect_to_nova().
    :param flavor_id: of the instances; None where nobody can tell.
    """

    def __init__(self, conf, connection, flavor_id):
        self._conf = conf
        self._connection = connection
        self._flavor_id = flavor_id

    def read(self, group_ids):
        """Ask for all of them at once.

        :param group_ids: ids of server groups.
        :returns: a facts.Compute.
        :raises CloudUnavailable: if there is no answer, or not a proper one.
        :raises CloudRefused: if the answer is no.
        """
        return facts.Compute(
            self._get_policies(frozenset(group_ids)), self._get_hosts(),
            self._get_left(), self._get_flavor())

    def _reported(self, action):
        return cloud.reported(self._conf, action, compute.NOVA)

    def _get_policies(self, ids):
        if len(ids) > _FEW:
            return self._list_policies(ids)
        found = (self._get_or_none(f'/os-server-groups/{group_id}',
                                   'read the server groups')
                 for group_id in sorted(ids))
        return dict(_describe(group['server_group'])
                    for group in found if group)

    def _list_policies(self, ids):
        found: dict = {}
        offset = 0
        while True:
            with self._reported('read the server groups'):
                page = self._ask('/os-server-groups', limit=_PAGE,
                                 offset=offset)['server_groups']
                found.update(map(_describe, page))
            # Nova may have a lower limit of its own.
            offset += len(page)
            if not page or ids <= found.keys():
                return {group_id: policy for group_id, policy in
                        found.items() if group_id in ids}

    def _get_hosts(self):
        """Return how many hosts are up, by zone; None if it is secret."""
        try:
            with self._reported('count the hosts'):
                services = self._ask('/os-services',
                                     binary='nova-compute')['services']
                zones: dict = {}
                for service in services:
                    if (service['state'], service['status']) == (
                            'up', 'enabled'):
                        zone = service['zone']
                        zones[zone] = zones.get(zone, 0) + 1
                return zones
        except exceptions.CloudRefused as e:
            if isinstance(e.__cause__, sdk_exc.ForbiddenException):
                # By default for administrators only.
                return None
            raise

    def _get_left(self):
        with self._reported('read the quota of instances'):
            limits = self._ask('/limits')['limits']['absolute']
            return {resource: None if limits[limit] < 0
                    else max(0, limits[limit] - limits[used])
                    for resource, (limit, used) in _LIMITS.items()}

    def _get_flavor(self):
        if not self._flavor_id:
            return None
        found = self._get_or_none(f'/flavors/{self._flavor_id}',
                                  'read the flavor of amphorae')
        with self._reported('read the flavor of amphorae'):
            return found and {'cores': found['flavor']['vcpus'],
                              'ram': found['flavor']['ram']}

    def _get_or_none(self, path, action):
        try:
            with self._reported(action):
                return self._ask(path)
        except exceptions.CloudRefused as e:
            if isinstance(e.__cause__, sdk_exc.NotFoundException):
                return None
            raise

    def _ask(self, path, **parameters):
        response = self._connection.compute.get(path, params=parameters)
        sdk_exc.raise_from_response(response)
        return response.json()


def _describe(group):
    """Return the id and the policy of a server group."""
    policies = group.get('policies') or [group.get('policy') or '']
    return group['id'], policies[0]

# SPDX-License-Identifier: Apache-2.0

"""Reads from Nova and Cinder what the checks of "image check" need."""

import collections
import urllib.parse

from octavia_hmsync import cloud
from octavia_hmsync import compute
from octavia_hmsync.image.preflight import asking
from octavia_hmsync.image.preflight import facts

# Server groups in one request.
_PAGE = 500
# Up to so many are read one by one, more as a list of all.
_FEW = 5
# Nova's names of the limits of a quota, and of what is used of them.
_LEFT = {'instances': ('maxTotalInstances', 'totalInstancesUsed'),
         'cores': ('maxTotalCores', 'totalCoresUsed'),
         'ram': ('maxTotalRAMSize', 'totalRAMUsed')}
# Nova's names of the limits of one server group, and of one instance.
_LIMITS = {'members': 'maxServerGroupMembers', 'files': 'maxPersonality',
           'bytes': 'maxPersonalitySize'}

CINDER = cloud.Service('Cinder', '[cinder] endpoint', 'service_auth')


class ComputeReader:
    """Reads what load balancers need from Nova."""

    def __init__(self, conf, connection):
        self._asker = asking.Asker(conf, connection, 'compute', compute.NOVA)

    def read(self, all_facts):
        """Read it for all load balancers at once.

        :param all_facts: a list of Facts, not empty, with builds and
                          settings.
        :raises CloudUnavailable: if there is no valid answer.
        :raises CloudRefused: if the answer is no, except by a policy.
        """
        group_ids = {one.load_balancer.server_group_id
                     for one in all_facts} - {None}
        may = asking.unless_hidden
        limits = may(self._get_limits)
        is_hidden = isinstance(limits, facts.Hidden)
        return facts.Compute(
            may(self._get_groups, group_ids), may(self._get_hosts),
            may(_get_zones, self._asker) if any(
                one.build.zone for one in all_facts) else {},
            limits if is_hidden else {
                resource: None if limits[limit] < 0
                else max(0, limits[limit] - limits[used])
                for resource, (limit, used) in _LEFT.items()},
            limits if is_hidden else {
                # Newer versions of Nova's API do not support files.
                resource: None if limits.get(limit, -1) < 0 else limits[limit]
                for resource, limit in _LIMITS.items()},
            may(self._get_flavors,
                {one.build.flavor_id for one in all_facts} - {None, ''}),
            may(self._has_key, all_facts[0].settings.key_name))

    def _get_groups(self, ids):
        if len(ids) > _FEW:
            return self._list_groups(ids)
        found = (self._asker.find(
            'read the server groups',
            lambda answer: _describe(answer['server_group']),
            f'/os-server-groups/{_quote(group_id)}')
            for group_id in sorted(ids))
        return dict(group for group in found if group)

    def _list_groups(self, ids):
        found: dict = {}
        offset = 0
        while True:
            page = self._asker.get(
                'read the server groups', lambda answer: [
                    _describe(group) for group in answer['server_groups']],
                '/os-server-groups', limit=_PAGE, offset=offset)
            found.update(page)
            # Nova may return fewer than asked for.
            offset += len(page)
            if not page or ids <= found.keys():
                return {group_id: group for group_id, group in
                        found.items() if group_id in ids}

    def _get_hosts(self):
        """Return how many hosts are up, by availability zone."""
        return self._asker.get(
            'count the hosts', lambda answer: dict(collections.Counter(
                service['zone'] for service in answer['services']
                if (service['state'], service['status']) == (
                    'up', 'enabled'))),
            '/os-services', binary='nova-compute')

    def _get_limits(self):
        def read(answer):
            limits = answer['limits']['absolute']
            for names in _LEFT.values():
                for name in names:
                    limits[name] + 0
            return limits

        return self._asker.get('read the quota of instances', read, '/limits')

    def _get_flavors(self, ids):
        found = ((flavor_id, self._asker.find(
            'read the flavor of amphorae', lambda answer: facts.ComputeFlavor(
                answer['flavor']['vcpus'], answer['flavor']['ram'],
                answer['flavor']['disk']),
            f'/flavors/{_quote(flavor_id)}')) for flavor_id in sorted(ids))
        return {flavor_id: flavor for flavor_id, flavor in found if flavor}

    def _has_key(self, name):
        if not name:
            return None
        return bool(self._asker.find(
            'read the keypair of amphorae',
            lambda answer: answer['keypair']['name'],
            f'/os-keypairs/{_quote(name)}'))


def _get_zones(asker):
    """Return {name of a zone: whether it is available}; Cinder has it, too."""
    return asker.get(
        'read the availability zones', lambda answer: {
            zone['zoneName']: bool(zone['zoneState']['available'])
            for zone in answer['availabilityZoneInfo']},
        '/os-availability-zone')


def _quote(name):
    return urllib.parse.quote(name, safe='')


def _describe(group):
    """Return the id and the ServerGroup of Nova's answer."""
    policies = group.get('policies') or [group.get('policy') or '']
    return group['id'], facts.ServerGroup(policies[0],
                                          len(group.get('members') or ()))


def connect(conf):
    """Make a connection to Cinder like Octavia's."""
    return cloud.connect_as_service(conf, CINDER, 'cinder', 'block_storage')


class VolumeReader:
    """Reads what load balancers need from Cinder."""

    def __init__(self, conf, connection):
        self._asker = asking.Asker(conf, connection, 'block_storage', CINDER)

    def read(self, all_facts):
        """Read it for all load balancers at once.

        :param all_facts: a list of Facts, not empty, with builds and
                          settings.
        :raises CloudUnavailable: if there is no valid answer.
        :raises CloudRefused: if the answer is no, except by a policy.
        """
        may = asking.unless_hidden
        project_id = self._asker.get_project_id()
        left = may(self._get_left, project_id) if project_id else {}
        is_hidden = isinstance(left, facts.Hidden)
        return facts.Volumes(
            may(self._get_types)
            if all_facts[0].settings.volume_type else frozenset(),
            may(_get_zones, self._asker) if any(
                one.build.volume_zone for one in all_facts) else {},
            left, None if is_hidden else left.pop('per_volume_gigabytes',
                                                  None))

    def _get_types(self):
        return self._asker.get(
            'read the volume types', lambda answer: frozenset(
                name for one in answer['volume_types']
                for name in (one['id'], one['name'])), '/types')

    def _get_left(self, project_id):
        """Return what is left of each quota, including quotas of types."""
        return self._asker.get(
            'read the quota of volumes', lambda answer: {
                name: None if quota['limit'] < 0 else max(
                    0, quota['limit'] - quota['in_use'] -
                    quota.get('reserved', 0))
                for name, quota in answer['quota_set'].items()
                if isinstance(quota, dict)},
            f'/os-quota-sets/{project_id}', usage='True')

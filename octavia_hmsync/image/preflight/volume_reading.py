# SPDX-License-Identifier: Apache-2.0

"""Reads from Cinder what the checks of "image check" need."""

import openstack.connection

from octavia_hmsync import cloud
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync.image.preflight import asking
from octavia_hmsync.image.preflight import facts

CINDER = cloud.Service('Cinder', '[cinder] endpoint', 'service_auth')


def connect(conf):
    """Make a connection to Cinder like Octavia's.

    See octavia_hmsync.compute.connect_to_nova().
    """
    options = {}
    cinder = conf.cinder
    for option, value in (
            ('region_name', cinder.region_name),
            ('block_storage_service_name', cinder.service_name),
            ('block_storage_endpoint_override', cinder.endpoint),
            ('interface', cinder.endpoint_type.removesuffix('URL'))):
        if value:
            options[option] = value
    with cloud.reported(conf, 'read the credentials', CINDER):
        return openstack.connection.Connection(
            session=cloud.make_session(conf, 'service_auth',
                                       compat_compute.load_auth()),
            **options)


class VolumeReader:
    """Reads what load balancers need from Cinder.

    :param connection: see connect().
    """

    def __init__(self, conf, connection):
        self._asker = asking.Asker(conf, connection, 'block_storage', CINDER)

    def read(self, all_facts):
        """Read it for all load balancers at once.

        :param all_facts: a list of Facts, not empty, with builds and
                          settings.
        :returns: a facts.Volumes.
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
            may(self._get_zones) if any(
                one.build.volume_zone for one in all_facts) else {},
            left, None if is_hidden else left.pop('per_volume_gigabytes',
                                                  None))

    def _get_types(self):
        return self._asker.get(
            'read the volume types', lambda answer: frozenset(
                name for one in answer['volume_types']
                for name in (one['id'], one['name'])), '/types')

    def _get_zones(self):
        return self._asker.get(
            'read the availability zones', lambda answer: {
                zone['zoneName']: bool(zone['zoneState']['available'])
                for zone in answer['availabilityZoneInfo']},
            '/os-availability-zone')

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

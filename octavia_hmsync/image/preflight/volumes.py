# SPDX-License-Identifier: Apache-2.0

"""Checks of Cinder, if amphorae boot from its volumes."""

from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding


def check_type(all_facts):
    """Whether the type of volumes exists.

    :param all_facts: a list of Facts, with one of Cinder for all.
    """
    name = all_facts[0].settings.volume_type
    if not name:
        return finding.success()
    unknown = _find_unknown(all_facts[0], 'types')
    if unknown or name in all_facts[0].volumes.types:
        return unknown or finding.success()
    return finding.failure(
        f'The volume type {name} of [cinder] volume_type is not in Cinder, or '
        f'not for the project of Octavia: correct it.')


def check_quota(all_facts):
    """Whether Octavia's project has quota for more volumes.

    :param all_facts: a list of Facts, with one of Cinder for all.
    """
    unknown = _find_unknown(all_facts[0], 'left')
    if unknown:
        return unknown
    settings, known = all_facts[0].settings, all_facts[0].volumes
    if known.largest is not None and known.largest < settings.volume_size:
        return finding.failure(
            f'A volume of the project of Octavia may have {known.largest} GB, '
            f'and [cinder] volume_size is {settings.volume_size}: raise the '
            f'quota per_volume_gigabytes in Cinder.')
    resources = {}
    for kind in ('', f'_{settings.volume_type}'):
        of_type = f' of the type {settings.volume_type}' if kind else ''
        for name, each, title in (
                ('volumes', 1, f'volumes{of_type}'),
                ('gigabytes', settings.volume_size,
                 f'GB of volumes{of_type}')):
            resources[name + kind] = (
                [each] * len(all_facts), known.left.get(name + kind), title)
    return compute.check_left(resources, settings.parallel, 'Cinder')


def check_zone(known):
    """Whether Cinder has the availability zone of its next volume."""
    zone = known.build.volume_zone
    if not known.settings.has_cinder or not zone:
        return finding.success()
    unknown = _find_unknown(known, 'zones')
    if unknown or known.volumes.zones.get(zone):
        return unknown or finding.success()
    return finding.warning(
        f'The zone {zone} of its next volume is not in Cinder, or not '
        f'available, and Cinder makes a volume elsewhere only with '
        f'allow_availability_zone_fallback: see "openstack availability zone '
        f'list --volume", [cinder] availability_zone, and the volume_zone of '
        f'its availability zone.')


def _find_unknown(known, *names):
    return facts.find_unknown(known.volumes, 'Volume service', *names)

# SPDX-License-Identifier: Apache-2.0

"""Checks of Nova, and of Cinder if amphorae boot from its volumes."""

from octavia_hmsync.cli import finding
from octavia_hmsync import compat
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import facts

_RESOURCES = {'instances': 'instances', 'cores': 'cores', 'ram': 'MB of RAM'}
# The number of files that Octavia puts into an instance by Nova.
_FILES = 4
_GIB = 2 ** 30
# The row of a missing answer.
_CINDER = 'Volume service'


def check_flavor(known):
    """Whether the flavor of its next instance exists."""
    wanted = known.build.flavor_id
    if not known.settings.has_nova or wanted is None:
        # If Octavia's flavor cannot be read, the image check fails already.
        return finding.success()
    if not wanted:
        return finding.failure(
            'Neither its flavor nor [controller_worker] amp_flavor_id names '
            'a flavor of Nova: set one.')
    unknown = find_unknown(known, 'flavors')
    if unknown or wanted in known.compute.flavors:
        return unknown or finding.success()
    source = ('[controller_worker] amp_flavor_id'
              if known.load_balancer.flavor_id is None else
              '[controller_worker] amp_flavor_id, or the compute_flavor of '
              'its flavor')
    return finding.failure(
        f'The flavor {wanted} of its next instance is not in Nova, or not '
        f'for the project of Octavia: correct {source}.')


def check_fit(known):
    """Whether the image fits into the next instance."""
    image = known.image
    if not known.settings.has_nova or image is None:
        return finding.success()
    unknown = find_unknown(known, 'flavors')
    if unknown:
        return unknown
    flavor = known.compute.flavors.get(known.build.flavor_id)
    if flavor and image.ram > flavor.ram:
        return finding.failure(
            f'Image {known.target.image_id} asks for {image.ram} MB of RAM '
            f'(min_ram), and the flavor {known.build.flavor_id} has '
            f'{flavor.ram}: take another flavor, or correct the image.')
    # min_disk may be smaller than the image.
    disk = max(image.disk, -(-image.size // _GIB))
    if known.settings.has_cinder:
        if disk > known.settings.volume_size:
            return finding.failure(
                f'Image {known.target.image_id} takes a volume of {disk} GB, '
                f'and [cinder] volume_size is {known.settings.volume_size}: '
                f'set a larger one.')
    # A flavor with a disk of 0 accepts any size.
    elif flavor and 0 < flavor.disk < disk:
        return finding.failure(
            f'Image {known.target.image_id} takes a disk of {disk} GB, and '
            f'the flavor {known.build.flavor_id} has {flavor.disk}: take '
            f'another flavor.')
    return finding.success()


def check_zone(known):
    """Whether Nova has the availability zone of its next instance."""
    if not known.settings.has_nova or not known.build.zone:
        return finding.success()
    unknown = find_unknown(known, 'zones')
    if unknown:
        return unknown
    zone = _get_zone(known)
    if known.compute.zones.get(zone):
        return finding.success()
    source = ('[nova] availability_zone'
              if known.load_balancer.availability_zone is None else
              '[nova] availability_zone, or the compute_zone of its '
              'availability zone')
    what = ('has no host that is up' if zone in known.compute.zones
            else 'is not in Nova')
    return finding.failure(
        f'The zone {zone} of its next instance {what}: see "openstack '
        f'availability zone list --compute", and {source}.')


def check_key(all_facts):
    """Whether the keypair of instances exists."""
    name = all_facts[0].settings.key_name
    if not name:
        return finding.success()
    unknown = find_unknown(all_facts[0], 'has_key')
    if unknown or all_facts[0].compute.has_key:
        return unknown or finding.success()
    return finding.failure(
        f'The keypair {name} of [controller_worker] amp_ssh_key_name is not '
        f'in Nova, or not that of the user of Octavia, and Nova builds '
        f'nothing without it: make it, or empty the option.')


def check_files(all_facts):
    """Whether Nova accepts the files that Octavia puts into an instance."""
    size = all_facts[0].settings.file_size
    unknown = find_unknown(all_facts[0], 'limits')
    if unknown or size is None:
        return unknown or finding.success()
    limits = all_facts[0].compute.limits
    number, most = limits.get('files'), limits.get('bytes')
    if number is not None and number < _FILES:
        return finding.failure(
            f'Octavia gives {_FILES} files to an instance, and Nova takes '
            f'{number} from its project: raise the quota injected_files.')
    if most is not None and size > most:
        return finding.failure(
            f'The file of [controller_worker] client_ca has {size} bytes, and '
            f'Nova takes {most} of a file from the project of Octavia: remove '
            f'certificates that are not needed from it, or raise the quota '
            f'injected_file_content_bytes.')
    return finding.success()


def check_quota(all_facts):
    """Whether Octavia's project has quota for more instances."""
    unknown = find_unknown(all_facts[0], 'left', 'flavors')
    if unknown:
        return unknown
    needed: dict = {resource: [] for resource in _RESOURCES}
    for known in all_facts:
        flavor = known.compute.flavors.get(known.build.flavor_id)
        needed['instances'].append(known.more)
        needed['cores'].append(known.more * flavor.cores if flavor else 0)
        needed['ram'].append(known.more * flavor.ram if flavor else 0)
    left = all_facts[0].compute.left
    return facts.check_left(
        {resource: (needed[resource], left.get(resource), name)
         for resource, name in _RESOURCES.items()},
        all_facts[0].settings.parallel, 'in Nova')


def find_unknown(known, *names):
    """Return the Finding if something in Nova is not known."""
    return facts.find_unknown(known.compute, 'Compute service', *names)


def check_hosts(known):
    """Whether Nova has room for one more instance of the load balancer."""
    group_id = known.load_balancer.server_group_id
    if not known.settings.has_nova:
        return _check_settings(known.settings) if group_id else (
            finding.success())
    unknown = find_unknown(known)
    if unknown:
        return unknown
    if not group_id:
        return _check_any(known)
    unknown = find_unknown(known, 'groups')
    if unknown:
        return unknown
    group = known.compute.groups.get(group_id)
    if group is None:
        return finding.failure(
            f'Its server group {group_id} is not in Nova any more, and Nova '
            f'builds nothing for a missing group: recreate the load '
            f'balancer.')
    limits = known.compute.limits
    most = (None if isinstance(limits, facts.Hidden)
            else limits.get('members'))
    if most is not None and group.members + known.more > most:
        return finding.failure(
            f'Its server group {group_id} has {group.members} instances, and '
            f'Nova lets one of the project of Octavia have {most}: raise the '
            f'quota server_group_members.')
    if group.policy != compat.HARD_ANTI_AFFINITY:
        return _check_any(known)
    return _check_number(known)


def _check_settings(settings):
    if settings.is_apart:
        return finding.warning(
            'Its instances must be on different hosts ([nova] '
            'anti_affinity_policy), and one more is built before an old one '
            'is deleted: that takes a third host with room for it.')
    return finding.success()


def _check_any(known):
    """Whether there is any host."""
    if isinstance(known.compute.hosts, facts.Hidden) or _count(known):
        return finding.success()
    return finding.failure(
        f'Nova has no host{_say_where(known)} that is up and enabled: see '
        f'"openstack compute service list".')


def _check_number(known):
    needed = (len(outdated.get_allocated(known.load_balancer)) + known.more -
              known.leaving)
    more = 'one more is' if known.more == 1 else f'{known.more} more are'
    if isinstance(known.compute.hosts, facts.Hidden):
        return finding.warning(
            f'Its instances must be on different hosts (anti-affinity), '
            f'and {more} built before an old one is deleted: that takes '
            f'{needed} hosts with room. Nova does not let the user of Octavia '
            f'see how many there are.')
    hosts = _count(known)
    if hosts < needed:
        return finding.failure(
            f'Its instances must be on different hosts (anti-affinity), '
            f'and {more} built before an old one is deleted: that takes '
            f'{needed} hosts, and Nova has {hosts}{_say_where(known)} that '
            f'are up and enabled. Add a host; soft-anti-affinity is for load '
            f'balancers that are made from then on.')
    return finding.success()


def _count(known):
    """Return how many hosts are up in the zone of the next instance."""
    if not known.build.zone:
        return sum(known.compute.hosts.values())
    return known.compute.hosts.get(_get_zone(known), 0)


def _say_where(known):
    return f' in the zone {_get_zone(known)}' if known.build.zone else ''


def _get_zone(known):
    # An administrator may append the name of a host.
    return known.build.zone.partition(':')[0]


def check_volume_type(all_facts):
    """Whether the type of volumes exists."""
    name = all_facts[0].settings.volume_type
    if not name:
        return finding.success()
    unknown = facts.find_unknown(all_facts[0].volumes, _CINDER, 'types')
    if unknown or name in all_facts[0].volumes.types:
        return unknown or finding.success()
    return finding.failure(
        f'The volume type {name} of [cinder] volume_type is not in Cinder, or '
        f'not for the project of Octavia: correct it.')


def check_volume_quota(all_facts):
    """Whether Octavia's project has quota for more volumes."""
    unknown = facts.find_unknown(all_facts[0].volumes, _CINDER, 'left')
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
                [each * one.more for one in all_facts],
                known.left.get(name + kind), title)
    return facts.check_left(resources, settings.parallel, 'in Cinder')


def check_volume_zone(known):
    """Whether Cinder has the availability zone of its next volume."""
    zone = known.build.volume_zone
    if not known.settings.has_cinder or not zone:
        return finding.success()
    unknown = facts.find_unknown(known.volumes, _CINDER, 'zones')
    if unknown or known.volumes.zones.get(zone):
        return unknown or finding.success()
    return finding.warning(
        f'The zone {zone} of its next volume is not in Cinder, or not '
        f'available, and Cinder makes a volume elsewhere only with '
        f'allow_availability_zone_fallback: see "openstack availability zone '
        f'list --volume", [cinder] availability_zone, and the volume_zone of '
        f'its availability zone.')

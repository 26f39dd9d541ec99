# SPDX-License-Identifier: Apache-2.0

"""Finds the kinds of load balancers that an operator names.

A name that nothing has selects no load balancer: who mistypes it would believe
that it does. So each is resolved, or refused.
"""

from oslo_utils import uuidutils

from octavia_hmsync import exceptions
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import inventory as inventory_repo


def find_flavor(_conf, engine, value):
    """Return (id, name) of a flavor of Octavia's, or raise NotPossible."""
    found = [(row.id, row.name)
             for row in inventory_repo.get_flavors(engine)
             if value in (row.id, row.name)]
    if not found:
        raise exceptions.NotPossible(
            f'There is no flavor {value}: see "openstack loadbalancer flavor '
            f'list".')
    # An id counts before a name that looks like one.
    return next((each for each in found if each[0] == value), found[0])


def find_zone(_conf, engine, value):
    """Return (name, None) of an availability zone, as find_flavor()."""
    if value not in {row.name for row in inventory_repo.get_zones(engine)}:
        raise exceptions.NotPossible(
            f'There is no availability zone {value} of Octavia: see '
            f'"openstack loadbalancer availabilityzone list".')
    return value, None


def find_project(conf, engine, value):
    """Find a project, as find_flavor().

    Keystone is asked unless a load balancer has it.

    :returns: (its id, its name or None if Keystone was not asked).
    :raises CloudUnavailable: if Keystone does not answer.
    :raises CloudRefused: if it does not tell, or several have this name.
    """
    # Imported late: it imports much, which takes a moment.
    from octavia_hmsync import cloud

    if exclusion_repo.count(engine, exclusion_repo.PROJECT, value):
        return value, None
    keystone = cloud.Service('Keystone', '[service_auth] auth_url',
                             'service_auth')
    try:
        with cloud.reported(conf, f'find the project {value}', keystone):
            found = cloud.connect(conf).identity.find_project(value)
    except (exceptions.CloudUnavailable, exceptions.CloudRefused):
        if uuidutils.is_uuid_like(value):
            return value, None
        raise
    if found is None:
        raise exceptions.NotPossible(
            f'There is no project {value}: see "openstack project list".')
    return found.id, found.name

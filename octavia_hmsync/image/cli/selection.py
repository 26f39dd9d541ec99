# SPDX-License-Identifier: Apache-2.0

"""Which load balancers an operator names, by options and values.

A name that nothing has selects no load balancer: who mistypes it would believe
that it does. So each is resolved, or refused.
"""

import datetime

from oslo_utils import timeutils
from oslo_utils import uuidutils

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import until
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.db import host_hold as hold_repo

_DAY = 86400


def add_arguments(parser, is_for_images):
    """Add the options of a rollout.

    :param is_for_images: whether it is for the image without one of these.
    """
    why = parser.add_mutually_exclusive_group(required=not is_for_images)
    if not is_for_images:
        why.add_argument('--image', action='store_true',
                         help='amphorae with an older image than the newest '
                              'one of their tag')
    why.add_argument(
        '--from-host', metavar='<host>',
        help='amphorae on this compute host, which must be disabled')
    why.add_argument('--from-zone', metavar='<zone>',
                     help='amphorae in this availability zone of Nova')
    why.add_argument('--balance', action='store_true',
                     help='members of clusters in zones that have more of '
                          'them than others, and one of each pair that has '
                          'left one of two zones')
    why.add_argument('--from-network', metavar='<network>',
                     help='amphorae with a port in this network')
    why.add_argument(
        '--flavor', metavar='<flavor>',
        help='amphorae of this flavor of Octavia whose compute flavor is '
             'another one than it has now')
    why.add_argument(
        '--certificate-ends-within', metavar='<days>',
        type=base.positive_number, help='amphorae whose certificate ends '
        'within so many days')
    why.add_argument(
        '--built-before', metavar='<time>', type=until.parse_time,
        help='amphorae that are older than this, UTC, such as '
             '2026-11-29T15:30')
    add_only(parser)


def add_only(parser):
    """Add the options that restrict a rollout to some load balancers."""
    parser.add_argument('--project', metavar='<project>',
                        help='only load balancers of this project')
    parser.add_argument('--tag', metavar='<tag>',
                        help='only load balancers with this tag')
    parser.add_argument('--loadbalancer', metavar='<loadbalancer>',
                        action='append',
                        help='only this one (name or id); may be repeated')


def read_only(conf, engine, parsed_args):
    """Return which load balancers a rollout is only for, as text.

    :raises NotPossible: if something that is named is not there.
    :raises CloudUnavailable, CloudRefused: if that cannot be told.
    """
    # Imported late: it needs Octavia.
    from octavia_hmsync.image import causes

    project, ids = parsed_args.project, parsed_args.loadbalancer
    if project is not None:
        project = find_project(conf, engine, project)[0]
    return causes.Only(project, parsed_args.tag, ids and tuple(sorted({
        load_balancers.find(engine, each) for each in ids}))).to_text()


def read_cause(conf, engine, parsed_args):
    """Return why amphorae are replaced, a Cause; raises as read_only()."""
    from octavia_hmsync.image import causes

    if parsed_args.from_host is not None:
        return causes.Cause(causes.Kind.HOST, parsed_args.from_host)
    if parsed_args.from_zone is not None:
        return causes.Cause(causes.Kind.ZONE, parsed_args.from_zone)
    if parsed_args.balance:
        if parsed_args.mode == rollout_repo.FAILOVER:
            raise exceptions.NotPossible(
                'Octavia\'s own failovers even out nothing, because Nova '
                'chooses the zones of what they build: run "octavia-hmsync '
                'rollout start --balance" without --mode failover.')
        return causes.Cause(causes.Kind.BALANCE)
    if parsed_args.from_network is not None:
        return causes.Cause(causes.Kind.NETWORK, _find_network(
            conf, parsed_args.from_network))
    if parsed_args.flavor is not None:
        return causes.Cause(causes.Kind.FLAVOR, find_flavor(
            conf, engine, parsed_args.flavor)[0])
    if parsed_args.certificate_ends_within is not None:
        seconds = parsed_args.certificate_ends_within * _DAY
        validity = conf.certificates.cert_validity_time
        if seconds >= validity:
            raise exceptions.NotPossible(
                f'New amphorae have certificates for {validity // _DAY} days '
                f'([certificates] cert_validity_time), so they would have to '
                f'be replaced again: give --certificate-ends-within fewer '
                f'days.')
        ends = timeutils.utcnow() + datetime.timedelta(seconds=seconds)
        return causes.Cause(causes.Kind.CERTIFICATE,
                            ends.isoformat(timespec='seconds'))
    if parsed_args.built_before is not None:
        if hold_repo.get_seconds(engine, parsed_args.built_before) > 0:
            raise exceptions.NotPossible(
                f'{base.format_time(parsed_args.built_before)} UTC is not '
                f'over, so amphorae that are built until then would have to '
                f'be replaced again: give another --built-before.')
        return causes.Cause(causes.Kind.AGE,
                            parsed_args.built_before.isoformat())
    return causes.Cause()


def _find_network(conf, name):
    from octavia_hmsync import cloud

    with cloud.reported(conf, f'find the network {name}'):
        found = cloud.connect(conf).network.find_network(name)
    if found is None:
        raise exceptions.NotPossible(
            f'There is no network {name}: see "openstack network list".')
    return found.id


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

# SPDX-License-Identifier: Apache-2.0

"""Checks of the requirements of clusters."""

import collections
from concurrent import futures
import datetime
import time

from oslo_utils import timeutils

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.cli import finding
from octavia_hmsync import cloud
from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution import distributor_status
from octavia_hmsync.cluster.managers import installed
from octavia_hmsync.compat import changes
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import ovn as ovn_conf
from octavia_hmsync.db import lookup
from octavia_hmsync import exceptions
from octavia_hmsync.services.checks import config
from octavia_hmsync.services.checks import settings

# How many distributors are asked at once.
_AT_ONCE = 16
# Seconds for each of OVN's databases, and for its floating IPs.
_OVN_TIMEOUT = 3


def check_clusters(conf, engine):
    """Whether clusters can be made, and the present ones go on."""
    clusters = len(cluster_repo.get_all(engine))
    is_enabled = readiness.is_enabled(conf)
    if not clusters and not is_enabled:
        return finding.success()
    if clusters:
        problem = _find_switched_off(conf, engine, is_enabled)
        if problem:
            return finding.failure(
                f'{clusters} load balancers have clusters, and {problem}')
    problem = (readiness.find_misconfiguration(conf) or
               _find_manager(conf) or
               ' '.join(settings.find_providers(conf)))
    if problem:
        return finding.failure(problem)
    problem = _find_others(conf, engine)
    if problem:
        return finding.failure(problem)
    found = changes.find_of_members()
    if found:
        return finding.failure(
            f'Clusters cannot be changed, because the installed Octavia is '
            f'not known to this release: {"; ".join(found)}. Install a '
            f'release of octavia-hmsync for this Octavia.')
    with engine.connect() as connection:
        missing = lookup.find_missing(connection)
        others = lookup.find_others(connection)
    if missing:
        return finding.failure(
            f'No cluster can be recorded: Octavia\'s database has no row '
            f'{", ".join(missing)}. Run "octavia-hmsync db upgrade".')
    notes = [_find_own_keys(conf)] + [
        # They do no harm: a roll-back leaves them, for example.
        f'Added by others than octavia-hmsync, which does no harm: '
        f'{", ".join(others)}.' if others else None]
    problem = _find_no_keeper(conf, engine, clusters)
    if problem:
        return finding.warning(' '.join(filter(None, [problem, *notes])))
    return finding.success(' '.join(filter(None, notes)) or None)


def _find_manager(conf):
    """Tell that the manager of new clusters is missing, None if it is not."""
    try:
        installed.get(conf[cluster_conf.GROUP].cluster_manager)
    except exceptions.InvalidConfiguration as e:
        return str(e)
    return None


def _find_no_keeper(conf, engine, clusters):
    """Tell that no process looks after clusters, None if it is not known.

    Each process that does asks distributors all the time, as OVN, and records
    who answers.
    """
    if conf[cluster_conf.GROUP].keep_in_housekeeping:
        return None
    rows = distributor_repo.get_enabled(engine)
    patience = distributor_status.get_patience(
        conf[cluster_conf.GROUP].keeper_interval)
    # When one was found to be OFFLINE is not recorded.
    if any(row.last_seen and (row.status == distributor_repo.OFFLINE or
                              row.now - row.last_seen <= patience)
           for row in rows):
        return None
    if not rows and not clusters and not backends.is_ovn(conf) and (
            not _get_wanted(conf, engine)):
        # Instances are booted for the first cluster.
        return None
    return (f'[{cluster_conf.GROUP}] keep_in_housekeeping = False, and no '
            f'process is seen that looks after clusters and hears what '
            f'distributes: without one no dead amphora is replaced. Start '
            f'octavia-hmsync-cluster-manager, or remove the option.')


def _find_own_keys(conf):
    """Tell why amphorae have TLS session ticket keys of their own."""
    # Imported late: it is slow.
    from octavia_hmsync.cluster.members import ticket_keys

    if (ticket_keys.find_passphrase(conf) is None and
            conf[cluster_conf.GROUP].tls_ticket_period):
        return ('Clients that come to another amphora do full TLS '
                'handshakes, as [certificates] server_certs_key_passphrase '
                'is the well-known default: give all controllers one '
                'of your own, or set [hmsync_cluster] tls_ticket_period = 0.')
    return None


def _find_switched_off(conf, engine, is_enabled):
    """Tell what the present clusters lack, None if nothing."""
    switched_on = config.check_switched_on(conf, engine)
    if switched_on.severity is finding.Severity.FAILURE:
        return ('octavia.conf does not switch the plugin on: they are not '
                'repaired. See "Switched on".')
    if not is_enabled:
        return (f'[api_settings] enabled_provider_drivers has no '
                f'{readiness.PROVIDER}: they cannot be changed or deleted. '
                f'Add it to octavia.conf of octavia-api.')
    return None


def _find_others(conf, engine):
    """Tell which clusters belong to another driver, None if none."""
    ours = conf.controller_worker.distributor_driver
    others = collections.Counter(
        cluster.distributor for cluster in cluster_repo.get_all(engine)
        if cluster.distributor != ours)
    if not others:
        return None
    found = ', '.join(f'{number} with {name}'
                      for name, number in sorted(others.items()))
    return (f'[controller_worker] distributor_driver is {ours}, and there '
            f'are clusters that were made with another one: {found}. No '
            f'driver takes over those of another one: set it back, or delete '
            f'their load balancers first.')


def check_distributors(conf, engine):
    """Whether distributors answer, with their own certificates."""
    # Housekeeping moves clusters off the distributors that it deletes.
    booted = {one.compute_id for one in booted_repo.get_all(engine)}
    known = [row for row in distributor_repo.get_all(engine)
             if not row.enabled and row.vips and row.name not in booted]
    if backends.is_ovn(conf) and readiness.is_enabled(conf):
        return _check_ovn(conf)
    problem = _find_missing_options(conf)
    if problem:
        return finding.failure(problem)
    wanted = _get_wanted(conf, engine)
    unknown = _find_unknown(conf)
    if not wanted and not known:
        # The check "Clusters" tells whether any is needed.
        return (finding.warning(' '.join(unknown)) if unknown
                else finding.success())
    problems, ends = _ask(conf, wanted)
    if wanted and len(problems) == len(wanted):
        return finding.failure(
            f'No distributor can be used: {" ".join(problems)}')
    problems += ends
    problems += _find_own_ends(conf)
    problems += _find_floating_ips(conf)
    problems += unknown
    if known:
        problems.append(
            f'{", ".join(row.name for row in known)} left [hmsync_cluster] '
            f'distributors with clusters: put it back until these are '
            f'elsewhere, see "octavia-hmsync distributor show".')
    if len(wanted) == 1 and not _get_limit(conf):
        problems.append(
            f'[hmsync_cluster] distributors has {wanted[0].name} alone: '
            f'no other takes over when it ends. Add another one.')
    return (finding.warning(' '.join(problems)) if problems
            else finding.success())


def _get_limit(conf):
    return conf[cluster_conf.GROUP].distributor_instances


def _find_missing_options(conf):
    """Tell what keeps distributors from being booted, None if nothing."""
    if not _get_limit(conf):
        return None
    from octavia_hmsync.cluster.instances import cloud as instance_cloud

    try:
        instance_cloud.read_options(conf)
    except exceptions.InvalidConfiguration as e:
        return str(e)
    return None


def _find_unknown(conf):
    """Tell what distributors are booted with and the cloud does not have."""
    if not _get_limit(conf):
        return []
    from octavia_hmsync.cluster.instances import cloud as instance_cloud
    from octavia_hmsync import compute
    from octavia_hmsync.image import target

    options = instance_cloud.read_options(conf)
    found = _find_no_ids(
        conf, cloud.NEUTRON, lambda: cloud.connect(conf).network,
        (('distributor_network_id', 'network', [options.network_id]),
         ('distributor_secgroup_list', 'security_group',
          options.security_groups)))
    if conf.controller_worker.compute_driver == compat_compute.NOVA_DRIVER:
        group = options.server_group
        found += _find_no_ids(
            conf, compute.NOVA, lambda: compute.connect_to_nova(conf).compute,
            (('distributor_flavor_id', 'flavor', [options.flavor_id]),
             ('distributor_server_group', 'server_group',
              [group] if group else [])))
    try:
        image = target.Targets(conf).get(options.image_tag)
    except exceptions.HMSyncException as e:
        return [*found, str(e)]
    return [*found, image.problem] if image.problem else found


def _find_no_ids(conf, service, connect, wanted):
    """Tell which values of options are ids of nothing in a service.

    :param connect: returns the SDK's proxy of the service.
    :param wanted: (option, kind of thing, its values) for each option.
    """
    try:
        with cloud.reported(conf, 'find what distributors are booted with',
                            service):
            api = connect()
            wrong = [(option, value) for option, kind, values in wanted
                     for value in values
                     # A name is found, too.
                     if getattr(getattr(api, f'find_{kind}')(value), 'id',
                                None) != value]
    except exceptions.HMSyncException as e:
        return [str(e)]
    return [f'[{cluster_conf.GROUP}] {option} has {value}, which is the id '
            f'of nothing in {service.name}: no distributor can be booted. '
            f'Correct it.' for option, value in wrong]


def _get_wanted(conf, engine):
    """Return all distributors that are wanted, by name."""
    from octavia_hmsync.cluster.distribution.ovs import vips

    return [cluster_conf.Distributor(name, url) for name, url
            in sorted(vips.get_wanted(conf, engine).items())]


def _check_ovn(conf):
    """Whether both databases of OVN can be used."""
    try:
        from octavia_hmsync.cluster.distribution.ovn import connections
    except exceptions.InvalidConfiguration as e:
        return finding.failure(str(e))

    def ask(database):
        try:
            connections.connect(conf, database, _OVN_TIMEOUT)
        except exceptions.HMSyncException as e:
            return str(e)
        return None

    problems = [problem for problem in map(ask, (
        connections.NORTHBOUND, connections.SOUTHBOUND)) if problem]
    connections.disconnect()
    return (finding.failure(' '.join(problems)) if problems
            else finding.success())


def _find_own_ends(conf):
    """Tell which certificates for distributors end soon here, as a list."""
    group = cluster_conf.GROUP
    soon = timeutils.utcnow() + datetime.timedelta(
        seconds=distributor_repo.EXPIRES_SOON)
    try:
        validity = agent_client.get_validity(conf, group)
    except (OSError, ValueError):
        # Each distributor that was asked has told so.
        return []
    return [f'[{group}] {option} = {conf[group][option]} ends on '
            f'{last:%Y-%m-%d}, and no distributor can be told anything after '
            f'that: renew it.' for option, (_first, last) in validity.items()
            if last < soon]


def _find_floating_ips(conf):
    """Tell whether floating IPs of clusters do not work, as a list."""
    from octavia_hmsync.cluster.distribution.ovs import floating_ips

    try:
        if floating_ips.are_unknown(conf):
            return [f'Neutron has agents of OVN, and '
                    f'{ovn_conf.name_connection(ovn_conf.NORTHBOUND)} is not '
                    f'set: nothing sees whether OVN distributes floating IPs, '
                    f'by which clients of clusters get no answer. Set it in '
                    f'octavia.conf of all controllers.']
        found = floating_ips.find(conf, _OVN_TIMEOUT)
    except exceptions.HMSyncException as e:
        return [str(e)]
    return [f'{len(found)} floating IPs are distributed by OVN, and clusters '
            f'get no answer back by one. {floating_ips.WHAT_TO_DO}'
            ] if found else []


def _ask(conf, wanted):
    """Ask distributors for their state.

    :returns: (problems of distributors that cannot be used, problems of
              others that need attention soon), lists of lines.
    """
    # Imported late: it is slow.
    from octavia_hmsync.cluster.distribution.ovs import distributors

    def ask(one):
        try:
            answer = distributor_status.ask(
                distributors.make_client(conf, one.url))
        except exceptions.InvalidConfiguration as e:
            answer = distributor_status.Answer(str(e))
        return [line and f'{one.name}: {line}'.rstrip('.') + '.' for line in
                (answer.problem, _find_end(answer.expires_at))]

    if not wanted:
        return [], []
    with futures.ThreadPoolExecutor(min(len(wanted), _AT_ONCE)) as executor:
        found = list(executor.map(ask, wanted))
    return ([problem for problem, _end in found if problem],
            [end for _problem, end in found if end])


def _find_end(expires_at):
    """Tell whether a certificate ends soon, None if it does not."""
    if expires_at is None or (
            expires_at > time.time() + distributor_repo.EXPIRES_SOON):
        return None
    end = datetime.datetime.fromtimestamp(expires_at, datetime.timezone.utc)
    return (f'a certificate of its API ends on {end:%Y-%m-%d}, and no '
            f'controller can tell it anything after that: renew server_cert '
            f'and client_ca in its [hmsync_distributor], and send it SIGHUP')

# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync cluster list, cluster show, cluster set."""

import collections

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.cluster.cli import common
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions


def _group(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row.cluster_id].append(row)
    return groups


class ListClusters(base.ListCommand):
    """List the clusters, and how many of their amphorae carry traffic.

    A load balancer of provider amphora_cluster has one. active is the number
    of members that get new connections; with fewer than min_size the load
    balancer is in ERROR.
    """

    COLUMNS = ('id', 'name', 'operating_status', 'active')
    LONG_COLUMNS = ('loadbalancer_id', 'provisioning_status', 'desired_size',
                    'min_size', 'members', 'standby', 'affinity',
                    'active_distributor', 'version', 'behind', 'created_at')

    METAVAR = '<cluster-id>'

    def read(self, _conf, engine, parsed_args):
        members = _group(member_repo.get_all(engine))
        vips = _group(vip_repo.get_all(engine))
        return [_make_row(cluster, members[cluster.id], vips[cluster.id])
                for cluster in cluster_repo.get_all(engine)]


def _make_row(cluster, members, vips):
    counts = collections.Counter(member.state for member in members)
    return (cluster.id, cluster.cluster_name, cluster.operating_status,
            counts[member_repo.ACTIVE], cluster.load_balancer_id,
            cluster.provisioning_status, cluster.desired_size,
            cluster.min_size,
            formatters.Objects(
                [{'state': state, 'members': counts[state]}
                 for state in member_repo.STATES if counts[state]],
                lambda each: f"{each['state']} {each['members']}"),
            cluster.standby, cluster.affinity, _get_active(vips),
            cluster.version,
            formatters.List(vip.distributor_name for vip in vips
                            if common.is_behind(vip, cluster.version)),
            base.format_time(cluster.created_at))


def _get_active(vips):
    return next((vip.distributor_name for vip in vips if vip.active), None)


class ShowCluster(base.DatabaseMixin, base.ShowOne):
    """Show one cluster, its members and its distributors.

    For a member: slot, state and amphora. For a distributor: whether it
    answers ARP, the version in force there, and why that is not the newest.
    """

    ARGUMENT = ('cluster', common.CLUSTER_HELP)

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        cluster = common.find_cluster(engine, parsed_args.cluster)
        members = member_repo.get_of_cluster(engine, cluster.id)
        vips = vip_repo.get_of_cluster(engine, cluster.id)
        return (('id', 'name', 'loadbalancer_id', 'provisioning_status',
                 'operating_status', 'enabled', 'cluster_type',
                 'desired_size', 'min_size', 'standby', 'cooldown',
                 'affinity', 'peer_group_size', 'distributor', 'version',
                 'members', 'distributors', 'claimed_by', 'claimed_until',
                 'created_at', 'updated_at'),
                (cluster.id, cluster.cluster_name, cluster.load_balancer_id,
                 cluster.provisioning_status, cluster.operating_status,
                 cluster.enabled, cluster.cluster_type,
                 cluster.desired_size, cluster.min_size, cluster.standby,
                 cluster.cooldown, cluster.affinity, cluster.peer_group_size,
                 cluster.distributor, cluster.version,
                 formatters.Objects([
                     {'id': each.id, 'slot': each.slot, 'state': each.state,
                      'amphora_id': each.amphora_id, 'health': each.health,
                      'connections': each.connections,
                      'ordered': each.ordered, 'error': each.error}
                     for each in members], _describe_member),
                 formatters.Objects([
                     {'distributor_id': vip.distributor_id,
                      'distributor_name': vip.distributor_name,
                      **common.show_vip(vip, cluster.version)}
                     for vip in vips], lambda vip: common.describe_vip(
                         vip, vip['distributor_name'])),
                 cluster.claimed_by,
                 base.format_time(cluster.claim_expires_at),
                 base.format_time(cluster.created_at),
                 base.format_time(cluster.updated_at)))


def _describe_member(member):
    slot = '-' if member['slot'] is None else member['slot']
    text = f"{slot} {member['state']} {member['amphora_id'] or '-'}"
    if member['connections'] is not None:
        text += ', ' + base.count(member['connections'], 'connection',
                                  'connections')
    if member['ordered']:
        text += f", {member['ordered']} is ordered"
    return f"{text}: {member['error']}" if member['error'] else text


def _number(text):
    """Read a number from 0 on, for argparse.

    find_problem() rejects a 0 where it has no meaning.
    """
    return 0 if text == '0' else base.positive_number(text)


class SetCluster(base.Change, command.Command):
    """Change how many members a cluster has, or its manager.

    Values that are not given stay. The cluster manager then adds and removes
    members, one change of the size at a time; a member that leaves keeps its
    connections until [hmsync_cluster] drain_timeout.
    """

    ARGUMENT = ('cluster', common.CLUSTER_HELP)
    DRY_RUN = 'what would change'
    WAIT = 'the cluster has as many members, and no other ones'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--desired', type=_number, metavar='<number>',
                            help='number of members')
        parser.add_argument('--min', type=_number, metavar='<number>',
                            help='with fewer members the load balancer is '
                                 'in ERROR')
        parser.add_argument('--cooldown', type=_number, metavar='<seconds>',
                            help='time between two changes of the size')
        parser.add_argument('--standby', type=_number, metavar='<number>',
                            help='number of further members that are built '
                                 'and wait')
        parser.add_argument('--manager', metavar='<name>',
                            help='the cluster manager that decides for it, '
                                 'which must be installed on all controllers')
        return parser

    def take_action(self, parsed_args):
        wanted = {name: value for name, value in (
            ('desired_size', parsed_args.desired),
            ('min_size', parsed_args.min),
            ('cooldown', parsed_args.cooldown),
            ('standby', parsed_args.standby),
            ('cluster_type', parsed_args.manager)) if value is not None}
        if not wanted:
            self.parser.error('one of --desired, --min, --cooldown, '
                              '--standby and --manager is required')
        conf, engine = self.open_database()
        cluster = common.find_cluster(engine, parsed_args.cluster)
        common.check_that_it_stays(engine, cluster)
        changes = find_changes(conf, cluster, wanted)
        if not changes:
            self.say(f'Cluster {cluster.id} has these values already.')
        else:
            if not parsed_args.dry_run and not cluster_repo.set_sizes(
                    engine, cluster.id, **changes):
                raise exceptions.NotPossible(
                    f'Cluster {cluster.id} was changed by another process at '
                    f'this moment: run the command again.')
            self.say(describe_changes(cluster, changes, parsed_args.dry_run))
        self.wait(parsed_args, lambda: look(engine, cluster.id),
                  describe_going_on(cluster.id))


def find_changes(conf, cluster, wanted):
    """Return which values of a cluster would change, and to what.

    :param wanted: {name: value}, for cluster_repo.set_sizes().
    :raises NotPossible: if the cluster cannot have these.
    """
    changes = {name: value for name, value in wanted.items()
               if getattr(cluster, name) != value}
    counts = {name: changes.get(name, getattr(cluster, name))
              for name in ('desired_size', 'min_size', 'cooldown', 'standby')}
    problem = changes and (
        _find_missing_manager(changes) or sizes.find_problem(
            **counts, size_limit=conf[cluster_conf.GROUP].size_limit))
    if problem:
        raise exceptions.NotPossible(
            f'Cluster {cluster.id} cannot have these values: {problem}.')
    return changes


def describe_changes(cluster, changes, dry_run):
    """Return in words what find_changes() has found."""
    said = ', '.join(f'{name} {getattr(cluster, name)} -> {value}'
                     for name, value in changes.items())
    return (f'Cluster {cluster.id}{" would get" if dry_run else ""}: '
            f'{said}.')


def describe_going_on(cluster_id):
    """Return what is said when a cluster's size is not waited for."""
    return (f'The cluster manager goes on: see "octavia-hmsync cluster show '
            f'{cluster_id}".')


def _find_missing_manager(changes):
    """Return why a cluster cannot have another manager, or None."""
    name = changes.get('cluster_type')
    if name is None:
        return None
    names = managers.get_names()
    if name in names:
        return None
    return (f'no cluster manager "{name}" is installed on this host, which '
            f'has {", ".join(names)}')


def look(engine, cluster_id):
    """Return whether a cluster has its members, and what it has."""
    cluster = cluster_repo.get(engine, cluster_id)
    if cluster is None:
        raise exceptions.NotPossible(f'Cluster {cluster_id} is gone.')
    counts = collections.Counter(
        member.state for member in member_repo.get_of_cluster(
            engine, cluster_id))
    known = ', '.join(f'{counts[state]} {state}'
                      for state in member_repo.STATES if counts[state])
    return counts == collections.Counter({
        member_repo.ACTIVE: cluster.desired_size,
        member_repo.STANDBY: cluster.standby}), {
            f'Cluster {cluster_id}': f'{known or "no member"}, of '
                                     f'{cluster.desired_size}'}

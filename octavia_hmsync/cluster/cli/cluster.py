# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync cluster list, cluster show, cluster set."""

import collections
import typing

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.cluster.cli import common
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions


def _group(rows):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row.cluster_id].append(row)
    return groups


def is_behind(vip, version):
    """Tell whether a distributor lacks the newest version of a cluster.

    :param version: of the cluster; None if that is gone.
    """
    return vip.applied_version != version


class ListClusters(base.ListCommand):
    """List the clusters, and how many of their amphorae carry traffic.

    A load balancer of provider amphora_cluster has one. active is the number
    of members that get new connections; with fewer than min_size the load
    balancer is in ERROR.
    """

    COLUMNS = ('id', 'name', 'loadbalancer_id', 'provisioning_status',
               'operating_status', 'desired_size', 'min_size', 'active')
    LONG_COLUMNS = ('members', 'standby', 'affinity', 'active_distributor',
                    'version', 'behind', 'created_at')

    METAVAR = '<cluster-id>'

    def read(self, _conf, engine, parsed_args):
        members = _group(member_repo.get_all(engine))
        vips = _group(vip_repo.get_all(engine))
        return [_make_row(cluster, members[cluster.id], vips[cluster.id])
                for cluster in cluster_repo.get_all(engine)]


def _make_row(cluster, members, vips):
    counts = collections.Counter(member.state for member in members)
    return (cluster.id, cluster.cluster_name, cluster.load_balancer_id,
            cluster.provisioning_status, cluster.operating_status,
            cluster.desired_size, cluster.min_size,
            counts[member_repo.ACTIVE],
            formatters.List(f'{state} {counts[state]}'
                            for state in member_repo.STATES if counts[state]),
            cluster.standby, cluster.affinity, _get_active(vips),
            cluster.version,
            formatters.List(vip.distributor_name for vip in vips
                            if is_behind(vip, cluster.version)),
            base.format_time(cluster.created_at))


def _get_active(vips):
    return next((vip.distributor_name for vip in vips if vip.active), None)


class ShowCluster(base.DatabaseMixin, base.ShowOne):
    """Show one cluster, its members and its distributors.

    For a member: slot, state and amphora. For a distributor: whether it
    answers ARP, the version in force there, and why that is not the newest.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('cluster', metavar='<cluster>',
                            help='its id or name, or those of its load '
                                 'balancer')
        return parser

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
                 formatters.Lines(map(_describe_member, members)),
                 formatters.Lines(describe_vip(
                     vip, vip.distributor_name, cluster.version)
                     for vip in vips),
                 cluster.claimed_by,
                 base.format_time(cluster.claim_expires_at),
                 base.format_time(cluster.created_at),
                 base.format_time(cluster.updated_at)))


def _describe_member(member):
    slot = '-' if member.slot is None else member.slot
    text = f'{slot} {member.state} {member.amphora_id or "-"}'
    if member.connections is not None:
        text += f', {member.connections} connections'
    if member.ordered:
        text += f', {member.ordered} is ordered'
    return f'{text}: {member.error}' if member.error else text


def describe_vip(vip, of, version):
    """Put a VIP on a distributor in one line.

    :param of: the name or id that begins the line.
    :param version: of its cluster; None if that is gone.
    """
    role = 'ACTIVE' if vip.active else 'STANDBY'
    has = (f'version {vip.applied_version}' if vip.applied_version
           else 'nothing')
    if is_behind(vip, version):
        has += (', the cluster is gone' if version is None
                else f' of {version}')
    text = f'{of} {role} {has}'
    return f'{text}: {vip.error}' if vip.error else text


def _number(text):
    """Read a number from 0 on, for argparse.

    find_problem() rejects a 0 where it has no meaning.
    """
    return 0 if text == '0' else base.positive_number(text)


class SetCluster(base.DatabaseMixin, command.Command):
    """Change how many members a cluster has.

    Values that are not given stay. The cluster manager then adds and removes
    members, one change of the size at a time; a member that leaves keeps its
    connections until [hmsync_cluster] drain_timeout.
    """

    # For errors in the combination of arguments, as argparse prints them.
    parser: typing.Any

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('cluster', metavar='<cluster>',
                            help='its id or name, or those of its load '
                                 'balancer')
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
        self.parser = parser
        return parser

    def take_action(self, parsed_args):
        wanted = {name: value for name, value in (
            ('desired_size', parsed_args.desired),
            ('min_size', parsed_args.min),
            ('cooldown', parsed_args.cooldown),
            ('standby', parsed_args.standby)) if value is not None}
        if not wanted:
            self.parser.error('one of --desired, --min, --cooldown and '
                              '--standby is required')
        conf, engine = self.open_database()
        cluster = common.find_cluster(engine, parsed_args.cluster)
        common.check_that_it_stays(engine, cluster)
        changes = {name: value for name, value in wanted.items()
                   if getattr(cluster, name) != value}
        if not changes:
            self.app.stdout.write(
                f'Cluster {cluster.id} has these values already.\n')
            return
        problem = sizes.find_problem(
            **{'desired_size': cluster.desired_size,
               'min_size': cluster.min_size, 'cooldown': cluster.cooldown,
               'standby': cluster.standby, **changes},
            size_limit=conf[cluster_conf.GROUP].size_limit)
        if problem:
            raise exceptions.NotPossible(
                f'Cluster {cluster.id} cannot have these values: {problem}.')
        if not cluster_repo.set_sizes(engine, cluster.id, **changes):
            raise exceptions.NotPossible(
                f'Cluster {cluster.id} was changed by another process at '
                f'this moment: run the command again.')
        said = ', '.join(f'{name} {getattr(cluster, name)} -> {value}'
                         for name, value in changes.items())
        self.app.stdout.write(f'Cluster {cluster.id}: {said}.\n')

# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync distributor list, show, drain, resume, move."""

import collections

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.cluster.cli import cluster as cluster_cli
from octavia_hmsync.cluster.cli import common
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync import exceptions


class ListDistributors(base.ListCommand):
    """List the distributors, and how many VIPs of clusters they have.

    status is ONLINE if it answered when it was last asked. enabled tells
    whether it gets new VIPs. A distributor that left [hmsync_cluster]
    distributors or is drained gets none; the former is listed until its VIPs
    are elsewhere. active_vips is the number of VIPs that clients reach by it,
    behind the number of VIPs whose newest version it lacks.
    """

    COLUMNS = ('name', 'url', 'status', 'enabled', 'drained', 'vips',
               'active_vips', 'behind')
    LONG_COLUMNS = ('id', 'driver', 'software_version', 'last_seen')

    METAVAR = '<distributor>'

    def read(self, _conf, engine, parsed_args):
        versions = cluster_repo.get_versions(engine)
        active: collections.Counter = collections.Counter()
        behind: collections.Counter = collections.Counter()
        for vip in vip_repo.get_all(engine):
            active[vip.distributor_id] += vip.active
            behind[vip.distributor_id] += cluster_cli.is_behind(
                vip, versions.get(vip.cluster_id))
        return [
            (each.name, each.url, each.status, each.enabled,
             each.drained, each.vips, active[each.id],
             behind[each.id], each.id, each.driver, each.software_version,
             base.format_time(each.last_seen))
            for each in distributor_repo.get_all(engine)]


class ShowDistributor(base.DatabaseMixin, base.ShowOne):
    """Show one distributor, and the VIPs of clusters on it.

    For each VIP: whether clients reach it here, the version in force, and why
    that is not the newest.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('distributor', metavar='<distributor>',
                            help='its name or id')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = common.find_distributor(engine, parsed_args.distributor)
        versions = cluster_repo.get_versions(engine)
        vips = vip_repo.get_of_distributor(engine, found.id)
        return (('id', 'name', 'url', 'driver', 'status', 'enabled',
                 'drained', 'software_version', 'last_seen', 'vips'),
                (found.id, found.name, found.url, found.driver, found.status,
                 found.enabled, found.drained, found.software_version,
                 base.format_time(found.last_seen),
                 formatters.Lines(cluster_cli.describe_vip(
                     vip, vip.cluster_id, versions.get(vip.cluster_id))
                     for vip in vips)))


class _Change(base.DatabaseMixin, command.Command):
    """A command that changes something of one distributor."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('distributor', metavar='<distributor>',
                            help='its name or id')
        return parser

    def _say(self, text):
        self.app.stdout.write(f'{text}\n')


class DrainDistributor(_Change):
    """Move clusters off a distributor, as before maintenance of its node.

    Other distributors that answer become active for them first, and no
    connection breaks; housekeeping does so within a minute. The drained
    distributor gets no new clusters until "distributor resume".
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = common.find_distributor(engine, parsed_args.distributor)
        if found.drained:
            self._say(f'Distributor {found.name} is drained already: it has '
                      f'{found.vips} VIPs.')
            return
        if not distributor_repo.drain(engine, found.id):
            raise exceptions.NotPossible(
                f'Distributor {found.name} is the last one for clusters: no '
                f'other one of [hmsync_cluster] distributors is ONLINE and '
                f'not drained. See "octavia-hmsync distributor list".')
        self._say(f'Distributor {found.name} is drained: {found.vips} VIPs '
                  f'leave it.')


class ResumeDistributor(_Change):
    """Put a drained distributor back into service.

    Clusters with fewer than two distributors get it within a minute. The
    active one of a cluster does not change.
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = common.find_distributor(engine, parsed_args.distributor)
        if not distributor_repo.resume(engine, found.id):
            raise exceptions.NotPossible(
                f'Distributor {found.name} is not drained: see '
                f'"octavia-hmsync distributor list".')
        self._say(f'Distributor {found.name} gets VIPs again.')


class MoveVIP(base.DatabaseMixin, command.Command):
    """Make another distributor of a cluster answer for its VIP.

    Established connections go on. Housekeeping tells the distributors within
    [hmsync_cluster] keeper_interval.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('cluster', metavar='<cluster>',
                            help='its id or name, or those of its load '
                                 'balancer')
        parser.add_argument('--to', metavar='<distributor>',
                            help='name or id of the distributor that becomes '
                                 'active (default: the other one)')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        cluster = common.find_cluster(engine, parsed_args.cluster)
        common.check_that_it_stays(engine, cluster)
        vips = vip_repo.get_of_cluster(engine, cluster.id)
        chosen = _choose(engine, cluster, vips, parsed_args.to)
        if not vip_repo.set_active(engine, cluster.id, chosen.distributor_id,
                                   cluster.version):
            raise exceptions.NotPossible(
                f'Cluster {cluster.id} was changed by another process at '
                f'this moment: run the command again.')
        self.app.stdout.write(
            f'Cluster {cluster.id} moves to distributor '
            f'{chosen.distributor_name}.\n')


def _choose(engine, cluster, vips, name):
    """Return the VIP of a cluster that becomes active.

    :param name: of a distributor; None for any that answers.
    :raises NotPossible: if there is none, or it cannot be active.
    """
    if name is not None:
        found = common.find_distributor(engine, name)
        vips = [vip for vip in vips if vip.distributor_id == found.id]
        if not vips:
            raise exceptions.NotPossible(
                f'Cluster {cluster.id} is not on distributor {found.name}: '
                f'see "octavia-hmsync cluster show {cluster.id}".')
        if vips[0].active:
            raise exceptions.NotPossible(
                f'Distributor {found.name} is active for cluster '
                f'{cluster.id} already.')
    usable = [vip for vip in vips if vip.port_id and not vip.active and
              vip.status == distributor_repo.ONLINE]
    if not usable:
        raise exceptions.NotPossible(
            f'Cluster {cluster.id} has '
            f'{f"no distributor {name}" if name else "no other distributor"} '
            f'that is ONLINE and has its VIP: see "octavia-hmsync cluster '
            f'show {cluster.id}".')
    return usable[0]

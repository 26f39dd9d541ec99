# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync distributor list, show, drain, resume, move."""

import collections

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
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

    COLUMNS = ('name', 'status', 'drained', 'vips', 'behind')
    LONG_COLUMNS = ('id', 'url', 'enabled', 'active_vips', 'driver',
                    'software_version', 'last_seen')

    METAVAR = '<distributor>'

    def read(self, _conf, engine, parsed_args):
        versions = cluster_repo.get_versions(engine)
        active: collections.Counter = collections.Counter()
        behind: collections.Counter = collections.Counter()
        for vip in vip_repo.get_all(engine):
            active[vip.distributor_id] += vip.active
            behind[vip.distributor_id] += common.is_behind(
                vip, versions.get(vip.cluster_id))
        return [
            (each.name, each.status, each.drained, each.vips,
             behind[each.id], each.id, each.url, each.enabled,
             active[each.id], each.driver, each.software_version,
             base.format_time(each.last_seen))
            for each in distributor_repo.get_all(engine)]


class ShowDistributor(base.DatabaseMixin, base.ShowOne):
    """Show one distributor, and the VIPs of clusters on it.

    For each VIP: whether clients reach it here, the version in force, and why
    that is not the newest.
    """

    ARGUMENT = ('distributor', 'its name or id')

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = common.find_distributor(engine, parsed_args.distributor)
        clusters = {each.id: each for each in cluster_repo.get_all(engine)}
        vips = vip_repo.get_of_distributor(engine, found.id)
        return (('id', 'name', 'url', 'driver', 'status', 'enabled',
                 'drained', 'software_version', 'last_seen', 'vips'),
                (found.id, found.name, found.url, found.driver, found.status,
                 found.enabled, found.drained, found.software_version,
                 base.format_time(found.last_seen),
                 formatters.Objects(
                     [_show_vip(vip, clusters.get(vip.cluster_id))
                      for vip in vips], lambda vip: common.describe_vip(
                         vip, vip['cluster_name'] or vip['cluster_id']))))


def _show_vip(vip, cluster):
    return {'cluster_id': vip.cluster_id,
            'cluster_name': cluster.cluster_name if cluster else None,
            **common.show_vip(vip, cluster.version if cluster else None)}


class _Change(base.Change, command.Command):
    """A command that changes something of one distributor."""

    ARGUMENT = ('distributor', 'its name or id')


class DrainDistributor(_Change):
    """Move clusters off a distributor, as before maintenance of its node.

    Other distributors that answer become active for them first, and no
    connection breaks; housekeeping does so within a minute. The drained
    distributor gets no new clusters until "distributor resume".
    """

    WAIT = 'no cluster has its VIP there any more'

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = common.find_distributor(engine, parsed_args.distributor)
        if found.drained:
            self.say(f'Distributor {found.name} is drained already: it has '
                     f'{_count(found)}.')
        elif parsed_args.dry_run:
            self._check(any(
                each.id != found.id and each.driver == found.driver and
                each.takes_vips and each.status == distributor_repo.ONLINE
                for each in distributor_repo.get_all(engine)), found)
            self.say(f'Distributor {found.name} would be drained, with '
                     f'{_count(found)} to move.')
        else:
            self._check(distributor_repo.drain(engine, found.id), found)
            self.say(f'Distributor {found.name} is drained, with '
                     f'{_count(found)} to move.')
        self.wait(parsed_args, lambda: _look(engine, found),
                  f'Distributor {found.name} goes on draining: see '
                  f'"octavia-hmsync distributor show {found.name}".')

    @staticmethod
    def _check(is_possible, found):
        if not is_possible:
            raise exceptions.NotPossible(
                f'Distributor {found.name} is the last one for clusters: no '
                f'other one of [hmsync_cluster] distributors is ONLINE and '
                f'not drained. See "octavia-hmsync distributor list".')


def _look(engine, distributor):
    """Return whether a distributor has no VIP, and how many it has."""
    found = distributor_repo.get(engine, distributor.id)
    if found is None:
        return True, {}
    return not found.vips, {
        f'Distributor {found.name}': _count(found)}


def _count(distributor):
    return base.count(distributor.vips, 'VIP', 'VIPs')


class ResumeDistributor(_Change):
    """Put a drained distributor back into service.

    Clusters with fewer than two distributors get it within a minute. The
    active one of a cluster does not change.
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = common.find_distributor(engine, parsed_args.distributor)
        if found.drained and parsed_args.dry_run:
            self.say(f'Distributor {found.name} would get VIPs again.')
        elif found.drained and distributor_repo.resume(engine, found.id):
            self.say(f'Distributor {found.name} gets VIPs again.')
        else:
            self.say(f'Distributor {found.name} is in service already.')


class MoveVIP(base.Change, command.Command):
    """Make another distributor of a cluster answer for its VIP.

    Established connections go on. Housekeeping tells the distributors within
    [hmsync_cluster] keeper_interval.
    """

    ARGUMENT = ('cluster', common.CLUSTER_HELP)
    DRY_RUN = 'to which one'
    WAIT = 'it answers for the VIP'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
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
        if chosen.active:
            self.say(f'Distributor {chosen.distributor_name} is active for '
                     f'cluster {cluster.id} already.')
        elif parsed_args.dry_run:
            self.say(f'Cluster {cluster.id} would move to distributor '
                     f'{chosen.distributor_name}.')
        else:
            if not vip_repo.set_active(engine, cluster.id,
                                       chosen.distributor_id,
                                       cluster.version):
                raise exceptions.NotPossible(
                    f'Cluster {cluster.id} was changed by another process at '
                    f'this moment: run the command again.')
            self.say(f'Cluster {cluster.id} moves to distributor '
                     f'{chosen.distributor_name}.')
        self.wait(parsed_args, lambda: _look_at_move(engine, chosen),
                  f'Housekeeping goes on: see "octavia-hmsync cluster '
                  f'show {cluster.id}".')


def _look_at_move(engine, chosen):
    """Return whether a distributor answers for a VIP, and what it has."""
    version = cluster_repo.get_versions(engine).get(chosen.cluster_id)
    found = [vip for vip in vip_repo.get_of_cluster(engine, chosen.cluster_id)
             if vip.id == chosen.id]
    if not found or not found[0].active:
        raise exceptions.NotPossible(
            f'Distributor {chosen.distributor_name} is no longer to answer '
            f'for cluster {chosen.cluster_id}: see "octavia-hmsync cluster '
            f'list --long".')
    return (bool(found[0].applied_active and
                 not common.is_behind(found[0], version)),
            {f'Cluster {chosen.cluster_id}': common.describe_vip(
                common.show_vip(found[0], version),
                chosen.distributor_name)})


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
            return vips[0]
    usable = [vip for vip in vips if vip.port_id and not vip.active and
              vip.status == distributor_repo.ONLINE]
    if not usable:
        raise exceptions.NotPossible(
            f'Cluster {cluster.id} has '
            f'{f"no distributor {name}" if name else "no other distributor"} '
            f'that is ONLINE and has its VIP: see "octavia-hmsync cluster '
            f'show {cluster.id}".')
    return usable[0]

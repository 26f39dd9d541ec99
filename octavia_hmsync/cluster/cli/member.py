# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync cluster member list, drain, undrain, replace."""

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cluster.cli import common
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import traffic as traffic_repo
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions

_STAYING = (member_repo.ACTIVE, member_repo.DRAINING)


class ListMembers(base.ListCommand):
    """List the members of clusters, by slot.

    A member without a slot gets no connections: it is built to replace
    another member, waits as a standby, or is being removed.

    With --traffic, what goes through each of them: packets and bytes are
    what distributors have sent to it (hmsync_ovn does not count them); the
    others are what its heartbeats told Octavia, of all listeners.
    """

    COLUMNS = ('id', 'cluster_name', 'slot', 'state')
    LONG_COLUMNS = ('cluster_id', 'amphora_id', 'health', 'connections',
                    'ordered', 'error', 'peer_group', 'mac', 'config_digest',
                    'created_at', 'updated_at')
    TRAFFIC_COLUMNS = ('id', 'slot', 'packets', 'bytes')
    LONG_TRAFFIC_COLUMNS = ('cluster_id', 'state', 'amphora_id', 'bytes_in',
                            'bytes_out', 'active_connections',
                            'total_connections')
    METAVAR = '<member-id>'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--cluster', metavar='<cluster>',
            help=f'only members of this cluster: {common.CLUSTER_HELP}')
        parser.add_argument(
            '--state', type=str.upper, choices=member_repo.STATES,
            help='only members in this state')
        parser.add_argument(
            '--traffic', action='store_true',
            help=f'show {", ".join(self.TRAFFIC_COLUMNS)} instead, and with '
                 f'--long {", ".join(self.LONG_TRAFFIC_COLUMNS)}; all '
                 f'distributors are asked')
        return parser

    def take_action(self, parsed_args):
        if not parsed_args.traffic:
            return super().take_action(parsed_args)
        # Imported late: it imports much, which takes a moment.
        from octavia_hmsync.cluster.distribution.ovs import traffic

        conf, engine = self.open_database(with_octavia=True)
        members = self._find(engine, parsed_args)
        sent = traffic.ask(conf, engine).values()
        told = traffic_repo.get_all(engine)
        rows = base.take_page([
            (member.id, member.slot,
             *_sum(one.get((member.cluster_id,
                            member.amphora_id or member.id)) for one in sent),
             member.cluster_id, member.state, member.amphora_id,
             *_show(told.get(member.id))) for member in members], parsed_args)
        if base.is_long(parsed_args, self.LONG_TRAFFIC_COLUMNS):
            return (*self.TRAFFIC_COLUMNS, *self.LONG_TRAFFIC_COLUMNS), rows
        return self.TRAFFIC_COLUMNS, [row[:len(self.TRAFFIC_COLUMNS)]
                                      for row in rows]

    @staticmethod
    def _find(engine, parsed_args):
        if parsed_args.cluster is None:
            members = member_repo.get_all(engine)
        else:
            members = member_repo.get_of_cluster(
                engine, common.find_cluster(engine, parsed_args.cluster).id)
        return [member for member in members
                if parsed_args.state in (None, member.state)]

    def read(self, _conf, engine, parsed_args):
        names = {each.id: each.cluster_name
                 for each in cluster_repo.get_all(engine)}
        return [
            (member.id, names.get(member.cluster_id), member.slot,
             member.state, member.cluster_id, member.amphora_id,
             member.health, member.connections, member.ordered, member.error,
             member.peer_group, member.mac, member.config_digest,
             base.format_time(member.created_at),
             base.format_time(member.updated_at))
            for member in self._find(engine, parsed_args)]


def _sum(sent):
    return tuple(map(sum, zip(*filter(None, sent)))) or (None, None)


def _show(traffic):
    if traffic is None:
        return (None,) * 4
    return (traffic.bytes_in, traffic.bytes_out, traffic.active_connections,
            traffic.total_connections)


class _Order(base.Change, command.Command):
    """A command that orders something for one member."""

    ARGUMENT = ('member', 'its id, or that of its amphora')

    def _give(self, engine, member, new, done, dry_run):
        """Give a member an order.

        :param done: what happens to it, a participle.
        """
        if not dry_run:
            self._set(engine, member, new)
        self.say(f'Member {member.id} {"would be" if dry_run else "is"} '
                 f'ordered to be {done}.')

    def _take_back(self, engine, member, verb, dry_run):
        if not dry_run:
            self._set(engine, member, None)
        self.say(f'The order to {verb} member {member.id} '
                 f'{"would be" if dry_run else "is"} taken back.')

    @staticmethod
    def _set(engine, member, new):
        # The error belongs to an earlier order.
        member_repo.record(engine, member.id, error=None)
        if not member_repo.set_order(engine, member.id, new):
            raise exceptions.NotPossible(
                f'Member {member.id} was changed by another process at '
                f'this moment: run the command again.')

    def _wait(self, parsed_args, engine, member, is_done):
        """Wait until is_done() of the Member; one that is gone is done."""
        def look():
            found = member_repo.get(engine, member.id)
            if found is None:
                return True, {}
            return is_done(found), {
                f'Member {member.id}': _describe(found)}

        self.wait(parsed_args, look,
                  f'The cluster manager goes on: see "octavia-hmsync '
                  f'cluster show {member.cluster_id}".')


def _describe(member):
    text = member.state
    if member.connections is not None:
        text += ', ' + base.count(member.connections, 'connection',
                                  'connections')
    return f'{text}: {member.error}' if member.error else text


def _read(engine, name):
    """Return a Member and its Cluster, which is not being deleted."""
    member = common.find_member(engine, name)
    cluster = cluster_repo.get(engine, member.cluster_id)
    if cluster is None:
        # Deleted between the two looks.
        raise exceptions.NotPossible(
            f'Cluster {member.cluster_id} of member {member.id} is gone.')
    common.check_that_it_stays(engine, cluster)
    return member, cluster


def _check_that_it_serves(member, states):
    if member.state not in states or member.slot is None:
        raise exceptions.NotPossible(
            f'Member {member.id} is {member.state}'
            f'{"" if member.slot is not None else " and has no slot"}, and '
            f'not {member_repo.ACTIVE}: see "octavia-hmsync cluster member '
            f'list".')


class DrainMember(_Order):
    """Stop new connections to a member.

    Its present connections go on. It stays drained until "cluster member
    undrain", or until it is replaced.
    """

    WAIT = 'its connections have ended, or [hmsync_cluster] drain_timeout'

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        member, cluster = _read(engine, parsed_args.member)
        if member.ordered == member_repo.DRAIN:
            self.say(f'Member {member.id} is already ordered to be drained.')
        else:
            self._check(engine, member, cluster)
            self._give(engine, member, member_repo.DRAIN, 'drained',
                       parsed_args.dry_run)
        limit = conf[cluster_conf.GROUP].drain_timeout
        self._wait(parsed_args, engine, member, lambda found: (
            found.state == member_repo.DRAINING and (
                found.connections == 0 or
                (found.now - found.updated_at).total_seconds() > limit)))

    @staticmethod
    def _check(engine, member, cluster):
        """Reject a drain that would leave too few members.

        :raises NotPossible: with what to do instead.
        """
        _check_that_it_serves(member, (member_repo.ACTIVE,))
        if member.ordered is not None:
            raise exceptions.NotPossible(
                f'Member {member.id} is being replaced, which drains it, '
                f'too: wait, or take that back with "octavia-hmsync cluster '
                f'member replace --cancel".')
        left = [other for other in member_repo.get_of_cluster(
            engine, cluster.id) if other.id != member.id and
            other.ordered != member_repo.DRAIN and other.state in (
                member_repo.ACTIVE, member_repo.STANDBY)]
        if len(left) < cluster.min_size:
            raise exceptions.NotPossible(
                f'Without member {member.id} cluster {cluster.id} has '
                f'{len(left)} ACTIVE members and standbys, and needs '
                f'{cluster.min_size}: replace it instead ("octavia-hmsync '
                f'cluster member replace"), or let the cluster have fewer '
                f'("octavia-hmsync cluster set --min").')


class UndrainMember(_Order):
    """Take back the order to drain a member."""

    WAIT = 'it gets new connections again'

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        member, _cluster = _read(engine, parsed_args.member)
        if member.ordered != member_repo.DRAIN:
            self.say(f'Member {member.id} has no order to be drained: it is '
                     f'{member.state}.')
        else:
            self._take_back(engine, member, 'drain', parsed_args.dry_run)
        self._wait(parsed_args, engine, member,
                   lambda found: found.state == member_repo.ACTIVE)


class ReplaceMember(_Order):
    """Replace a member by another amphora.

    The new amphora is built and configured before the member is drained;
    connections of the member go on until [hmsync_cluster] drain_timeout. A
    cluster replaces one member at a time. A standby can be replaced, too.
    --cancel takes the order back, unless it is carried out already.
    """

    WAIT = 'it is gone'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--cancel', action='store_true',
                            help='take the order back')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        member, _cluster = _read(engine, parsed_args.member)
        if parsed_args.cancel:
            self._cancel(engine, member, parsed_args)
            return
        if member.ordered == member_repo.REPLACE:
            self.say(f'Member {member.id} is already ordered to be replaced.')
        else:
            # A standby, and a member whose slot a standby has taken, are
            # deleted.
            if member.slot is not None or member.state not in (
                    member_repo.STANDBY, member_repo.DRAINING):
                _check_that_it_serves(member, _STAYING)
            self._give(engine, member, member_repo.REPLACE, 'replaced',
                       parsed_args.dry_run)
        self._wait(parsed_args, engine, member, lambda found: False)

    def _cancel(self, engine, member, parsed_args):
        if parsed_args.wait:
            self.parser.error('argument --wait: not with --cancel')
        if member.ordered != member_repo.REPLACE:
            self.say(f'Member {member.id} has no order to be replaced: it is '
                     f'{member.state}.')
        elif member.slot is None:
            raise exceptions.NotPossible(
                f'Member {member.id} has been replaced, and is about to be '
                f'deleted: see "octavia-hmsync cluster member list".')
        else:
            self._take_back(engine, member, 'replace', parsed_args.dry_run)

# SPDX-License-Identifier: Apache-2.0

"""Commands on health managers."""

import collections

from cliff import command

from octavia_hmsync import addresses as addr
from octavia_hmsync.cli import base
from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import drain
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.cli import watch as sync_watch
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member as mem

# What keeps a drain, the worst first, of several amphorae.
_FACTS = {adoption.Standing.SENDS: 'have the new list and do not use it',
          adoption.Standing.HAS_IT: 'do not have the new list yet',
          adoption.Standing.MAY_SEND: 'were not seen to use it yet'}
_HOST_HELP = ('[DEFAULT] host of the health manager, as "health manager '
              'list" shows it')


class ListHealthManagers(base.ListCommand):
    """List the health managers that have registered.

    A health manager is ONLINE while its keepalives come. After a silence of
    more than offline_after it is shown as OFFLINE. key is SAME if it listens
    with the heartbeat_key of the newest list, OTHER if not, and RESTART if
    its octavia.conf has another key by now than it listens with.
    """

    COLUMNS = ('host', 'ip_address', 'port', 'status', 'key', 'zone')
    LONG_COLUMNS = ('keepalive_at', 'further_addresses')
    METAVAR = '<health-manager>'

    def read(self, conf, engine, parsed_args):
        newest = generation_repo.get_newest(engine)
        return [
            (row.host, row.ip_address, row.port, mem.effective_status(
                row.status, (row.now - row.keepalive_at).total_seconds(),
                conf.hmsync.offline_after),
             _tell_key(row, newest), row.zone or None,
             base.format_time(row.keepalive_at), _list_further(row))
            for row in hm_repo.get_rows(engine)]


def _list_further(row):
    """Return its addresses in further networks, None without any."""
    return addr.join_list(hm_repo.get_further(row).values()) or None


def _tell_key(row, newest):
    """Compare its key with the list's: RESTART, SAME, OTHER, or None."""
    if row.configured_key_digest not in (None, row.key_digest):
        return 'RESTART'
    if newest is None or None in (row.key_digest, newest.key_digest):
        return None
    return 'SAME' if row.key_digest == newest.key_digest else 'OTHER'


class _OfHost(base.DatabaseMixin):
    """For commands with arguments that name a health manager, or this host."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument('host', nargs='?', metavar='<health-manager>',
                           help=_HOST_HELP)
        which.add_argument('--self', action='store_true', dest='is_self',
                           help='that of this host: [DEFAULT] host of this '
                                'octavia.conf')
        return parser

    @staticmethod
    def get_host(conf, parsed_args):
        """Return the host that the arguments name."""
        return conf.host if parsed_args.is_self else parsed_args.host


class ShowHealthManager(_OfHost, base.ShowOne):
    """Show one health manager.

    With --self that of this host, for a readiness probe: it fails unless the
    health manager is up and its address is known to the others.
    """

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        host = self.get_host(conf, parsed_args)
        row, member = drain.find(engine, host)
        status = mem.effective_status(row.status, member.keepalive_age,
                                      conf.hmsync.offline_after)
        if parsed_args.is_self and status == mem.OFFLINE:
            raise exceptions.NotPossible(
                f'Health manager {host} is OFFLINE: see its log.')
        return (('host', 'ip_address', 'port', 'status', 'online_since',
                 'keepalive_at', 'heard_at', 'late_at', 'starting_at',
                 'restart_took', 'key', 'zone', 'further_addresses'),
                (row.host, row.ip_address, row.port, status,
                 base.format_time(row.online_since),
                 base.format_time(row.keepalive_at),
                 base.format_time(row.heard_at),
                 base.format_time(row.late_at),
                 base.format_time(row.starting_at),
                 None if row.restart_took is None
                 else round(row.restart_took),
                 _tell_key(row, generation_repo.get_newest(engine)),
                 row.zone or None, _list_further(row)))


class DrainHealthManager(_OfHost, base.Change, command.Command):
    """Take a health manager out of the list while it still listens.

    It drains until it ends or "health manager resume" is run; when it starts
    again it is ONLINE. With --wait the command returns when no amphora sends
    to it any more; it fails, with the amphorae that still do, after
    --timeout.
    """

    WAIT = 'no amphora sends to it any more'
    TIMEOUT = 300

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        host = self.get_host(conf, parsed_args)
        row, member = drain.find(engine, host)
        if row.status == mem.DRAINING and mem.is_listening(
                member, conf.hmsync.offline_after):
            self.say(f'Health manager {host} at {member.address} is DRAINING '
                     f'already.')
        else:
            drain.check(engine, host, conf.hmsync.offline_after)
            if parsed_args.dry_run:
                self.say(f'Health manager {host} at {member.address} can be '
                         f'drained.')
                return
            drain.begin(engine, host, conf.hmsync.offline_after)
            self.say(f'Health manager {host} at {member.address} is '
                     f'DRAINING.')
        if parsed_args.wait and not parsed_args.dry_run:
            self._wait(conf, engine, host, [
                member.address, *hm_repo.get_further(row).values()],
                parsed_args.timeout)

    def _wait(self, conf, engine, host, addresses, timeout):
        senders = drain.DrainWatch(conf, engine, addresses)
        names = load_balancers.Names(engine)

        def name(found, *standings):
            """Name some amphorae, by their load balancers."""
            wanted = [(amphora_id, each) for each in standings
                      for amphora_id, standing in sorted(found.items())
                      if standing is each]
            shown = wanted[:progress.NAMED]
            names.read(senders.load_balancers[amphora_id]
                       for amphora_id, _standing in shown)
            return progress.name_some(
                [_describe(amphora_id, names.label(
                    senders.load_balancers[amphora_id]), standing)
                 for amphora_id, standing in shown], len(wanted),
                'octavia-hmsync amphora list')

        def make_bar(found):
            counts = collections.Counter(found.values())
            total = len(senders.load_balancers)
            return progress.Bar(
                f'drain of {host}', total - len(found), total, 'amphorae',
                tuple(f'{counts[each]} {text}'
                      for each, text in _FACTS.items() if counts[each]))

        def show(found):
            # What is on its way is only counted.
            watch.show([make_bar(found)], name(found, adoption.Standing.SENDS))
            # A wrong empty answer would let the controller be switched off.
            return not found

        def give_up(found):
            if found is None:
                return (f'After {timeout:g} s it cannot be told which '
                        f'amphorae may still send to {host}, because the '
                        f'database cannot be used. It goes on draining: run '
                        f'the command again.')
            watch.show([make_bar(found)], name(found, *_FACTS))
            number = base.count(len(found), 'amphora', 'amphorae')
            return (f'After {timeout:g} s {number} may still send to {host}. '
                    f'It goes on draining: run the command '
                    f'again, or see "octavia-hmsync amphora list" for what '
                    f'keeps them.')

        with progress.Watch(
                self.app, conf.hmsync.poll_interval, timeout,
                f'{host} goes on draining: see "octavia-hmsync health manager '
                f'resume".', base.explain_passing) as watch:
            watch.follow(senders.get_senders, show, give_up)
        self.say(f'No amphora sends to {host} any more.')


def _describe(amphora_id, load_balancer, standing):
    of = f' of {load_balancer}' if load_balancer else ''
    return f'amphora {amphora_id}{of} {standing.value}'


class ResumeHealthManager(_OfHost, base.Change, command.Command):
    """End the draining of a health manager: it is ONLINE again."""

    WAIT = 'every amphora has a list with its address'

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        host = self.get_host(conf, parsed_args)
        row, member = drain.find(engine, host)
        if not mem.is_listening(member, conf.hmsync.offline_after):
            raise exceptions.NotPossible(
                f'Health manager {host} is OFFLINE: start '
                f'octavia-health-manager there.')
        if member.is_zone_drained:
            raise exceptions.NotPossible(
                f'Health manager {host} is DRAINING with its zone '
                f'{member.zone}: see "octavia-hmsync zone list", and "zone '
                f'release".')
        if row.status == mem.ONLINE:
            self.say(f'Health manager {host} at {member.address} is ONLINE '
                     f'already.')
        elif parsed_args.dry_run:
            self.say(f'Health manager {host} at {member.address} can be '
                     f'resumed.')
        else:
            hm_repo.change_status(engine, host, mem.DRAINING, mem.ONLINE)
            self.say(f'Health manager {host} at {member.address} is ONLINE.')
        sync_watch.wait(self, parsed_args, conf, engine, lambda seen: (
            seen.is_complete and member.address in
            seen.parts[0].generation.addresses))


class DeleteHealthManager(base.Change, command.Command):
    """Delete health managers that are OFFLINE.

    Their addresses leave the list at once, without removal_delay. An address
    that an octavia.conf lists stays, and counts as dead until a health
    manager registers there. With several, all are deleted that can be.
    """

    WAIT = 'every amphora has a list without their addresses'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('hosts', nargs='+', metavar='<health-manager>',
                            help=_HOST_HELP)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        hosts = list(dict.fromkeys(parsed_args.hosts))
        failed: list = []
        left: set = set()
        for host in hosts:
            try:
                left |= self._delete(conf, engine, host,
                                     parsed_args.dry_run)
            except exceptions.NotPossible as e:
                if len(hosts) == 1:
                    raise
                self.app.stderr.write(f'{e}\n')
                failed.append(host)
        if failed:
            raise exceptions.NotPossible(
                f'{len(failed)} of {len(hosts)} health managers cannot be '
                f'deleted: {", ".join(failed)}.')
        sync_watch.wait(self, parsed_args, conf, engine, lambda seen: (
            seen.is_complete and not left.intersection(
                seen.parts[0].generation.addresses)))

    def _delete(self, conf, engine, host, dry_run):
        """Delete one; return its addresses that do not stay listed."""
        row, member = drain.find(engine, host)
        if mem.is_listening(member, conf.hmsync.offline_after) or not (
                dry_run or hm_repo.delete(engine, host, row.keepalive_at)):
            raise exceptions.NotPossible(
                f'Health manager {host} is alive and would register again: '
                f'stop octavia-health-manager there first, or drain it.')
        self.say(f'Health manager {host} can be deleted.' if dry_run
                 else f'Health manager {host} is deleted.')
        opts = conf.hmsync
        pinned = keeper_repo.get_pinned(
            engine, opts.offline_after + opts.removal_delay)
        if member.address in pinned:
            self.say(f'Its address {member.address} is in the '
                     f'controller_ip_port_list of an octavia.conf and stays '
                     f'in every list. It counts as dead until a health '
                     f'manager registers there, also where one without the '
                     f'plugin listens.')
        return {member.address, *hm_repo.get_further(row).values()} - {
            *pinned}

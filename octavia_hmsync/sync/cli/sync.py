# SPDX-License-Identifier: Apache-2.0

"""Commands on the published list."""

from cliff import command

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import watch
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial


class ShowStatus(base.DatabaseMixin, base.ShowOne):
    """Show the newest published list and how far the amphorae are with it.

    due counts the amphorae that are not at the newest generation, whatever
    the reason; the results are those of the last attempt at each amphora, and
    untried counts those without an attempt.
    adopted, pending, not_adopted and unproven count the amphorae that have
    acknowledged a list by whether they use it: see "amphora list --help".
    suspects are addresses with which amphorae fell silent; see "sync retry".
    blind_controllers are services that cannot reach amphorae which others
    reach, and that leave the uploads to these.
    problems are why housekeepers upload nothing, for each of them.
    paused_until tells that no amphora is uploaded to; see "sync pause".
    other_key counts the amphorae that are not known to sign with the
    heartbeat_key of the newest list.
    """

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        newest = generation_repo.get_newest(engine)
        counts = amphora_repo.count(engine, newest.number if newest else 0)
        members = hm_repo.get_all(engine)
        adoptions = amphora_repo.count_adoptions(
            engine, members, timing.Settings.from_conf(conf))
        suspects = trial.get_suspects(
            generation_repo.get_suspects(engine), members)
        pause = pause_repo.get(engine)
        blind = reach.get_blind(uploader_repo.get_all(engine),
                                conf.hmsync.offline_after)
        keepers = keeper_repo.get_up(engine, conf.hmsync.offline_after)
        return (('generation', 'status', 'paused_until',
                 'controller_ip_port_list', 'suspects',
                 'blind_controllers', 'problems', 'amphorae', 'due',
                 'applied', 'unreachable', 'rejected', 'unsupported',
                 'untried', 'other_key',
                 *(state.value.lower() for state in adoption.Adoption)),
                (newest.number if newest else None,
                 newest.status if newest else None,
                 base.format_time(pause.ends_at) if pause else None,
                 # In the form of octavia.conf, for a roll-back.
                 formatters.List(addr.for_agents(
                     newest.addresses if newest else ())),
                 formatters.List(addr.canonical(suspects)),
                 formatters.List([u.name for u in blind]),
                 formatters.Objects(
                     [{'host': host, 'problem': problem}
                      for host, problem in keepers.items() if problem],
                     lambda each: f"{each['host']}: {each['problem']}"),
                 counts.amphorae, counts.due,
                 *(counts.results.get(result, 0)
                   for result in upload_result.ALL),
                 counts.amphorae - sum(counts.results.values()),
                 amphora_repo.count_other_key(
                     engine, newest.key_digest if newest else None),
                 *(adoptions[state] for state in adoption.Adoption)))


class Run(base.Change, command.Command):
    """Tell housekeeping to upload to amphorae now.

    Without arguments, to amphorae whose last attempt failed and which wait
    for the next. With --amphora or --all to these again, whatever they have:
    for example after a change of [amphora_agent] options. Fails if no
    octavia-housekeeping is up; the request then waits for one.
    """

    DRY_RUN = 'how many there are'
    WAIT = 'every amphora, or each of --amphora, has the newest list'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument('--amphora', metavar='<amphora>', nargs='+',
                           action='extend', default=[],
                           help='these amphorae')
        which.add_argument('--all', action='store_true',
                           help='all amphorae that have an agent')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        rows = {row.id: row for row in amphora_repo.get_rows(engine)}
        unknown = sorted(set(parsed_args.amphora) - set(rows))
        if unknown:
            raise exceptions.NotPossible(
                f'There is no amphora {", ".join(unknown)} with an agent: '
                f'see "octavia-hmsync amphora list".')
        again = list(rows if parsed_args.all else set(parsed_args.amphora))
        if parsed_args.dry_run:
            waiting = attempt_repo.get_waiting(engine)
            number = len(again) if again or parsed_args.all else sum(
                row.next_attempt_at is not None or amphora_id in waiting
                for amphora_id, row in rows.items())
            self.say(f'{base.count(number, "amphora", "amphorae")} would be '
                     f'uploaded to.')
            return
        # What can fail goes first: after an error nothing is changed.
        pause = pause_repo.get(engine)
        offline_after = conf.hmsync.offline_after
        is_anybody_up = keeper_repo.get_up(engine, offline_after)
        amphora_repo.add_missing(engine)
        if again or parsed_args.all:
            number = claim_repo.upload_again(engine, again)
        else:
            number = claim_repo.retry_now(engine)
        if not is_anybody_up:
            raise exceptions.NotPossible(
                f'{watch.describe_nobody(offline_after)} '
                f'{base.count(number, "amphora waits", "amphorae wait")} for '
                f'it, whenever it comes: start octavia-housekeeping, or see '
                f'its log.')
        when = (f'after the pause. {watch.describe_pause(pause)}' if pause
                else 'within some seconds; see "octavia-hmsync sync status".')
        self.say(f'{base.count(number, "amphora is", "amphorae are")} '
                 f'uploaded to {when}')
        watch.wait(self, parsed_args, conf, engine,
                   (lambda _seen: _have_newest(engine, again))
                   if parsed_args.amphora else None)


def _have_newest(engine, amphora_ids):
    """Tell whether amphorae have the newest list; deleted ones count, too."""
    newest = generation_repo.get_newest(engine)
    return newest is not None and all(
        row.generation == newest.number
        for row in amphora_repo.get_rows(engine) if row.id in amphora_ids)


class Retry(base.Change, command.Command):
    """Give addresses that a roll back left out another chance.

    Run it when amphorae can reach them. A few amphorae try them first.
    """

    DRY_RUN = 'which ones'
    WAIT = 'every amphora has a list with them'

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        suspects = (generation_repo.get_suspects(engine)
                    if parsed_args.dry_run
                    else generation_repo.clear_suspects(engine))
        if suspects:
            text = (f'Another chance for '
                    f'{addr.join_list(addr.canonical(suspects))}.')
            if parsed_args.dry_run:
                text = f'There would be a{text[1:]}'
        else:
            text = 'No address is left out.'
        self.say(text)
        if suspects and parsed_args.wait and not parsed_args.dry_run:
            # Where no health manager listens, it comes into no list.
            wanted = set(suspects) & {
                m.address for m in hm_repo.get_all(engine)
                if mem.is_listening(m, conf.hmsync.offline_after)}
            watch.wait(self, parsed_args, conf, engine, lambda seen: (
                seen.is_complete and wanted <=
                set(seen.parts[0].generation.addresses)))


class Pause(base.Change, command.Command):
    """Upload to no amphora for some time.

    For the duration of work on the management network, for example. Lists
    are still published, and new amphorae boot with the newest one; uploads
    under way end. A pause ends by itself after --for, because amphorae whose
    health managers are all replaced meanwhile are kept from failover for no
    longer than failover_hold_max.
    """

    DRY_RUN = 'whether there is a pause'
    WAIT = 'no upload is under way any more'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--for', type=base.positive_seconds, default=3600,
                            dest='seconds', metavar='<seconds>',
                            help='for how long (default: 3600)')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        if parsed_args.dry_run:
            pause = pause_repo.get(engine)
            self.say(f'There is a pause until '
                     f'{base.format_time(pause.ends_at)} UTC; another takes '
                     f'its place.' if pause else 'There is no pause.')
            return
        # What can fail goes first: after an error nothing is paused.
        newest = generation_repo.get_newest(engine)
        pause = pause_repo.begin(
            engine, parsed_args.seconds,
            types.storable(' '.join((parsed_args.reason or '').split())))
        self.say(f'No amphora is uploaded to until '
                 f'{base.format_time(pause.ends_at)} UTC, or "octavia-hmsync '
                 f'sync resume".')
        if newest and newest.is_on_trial:
            self.say(f'Generation {newest.number} is on trial: an amphora '
                     f'that falls silent with it does not get the last good '
                     f'list back before the pause ends.')
        watch.wait(self, parsed_args, conf, engine, lambda seen: not any(
            part.progress.claimed for part in seen.parts))


class Resume(base.Change, command.Command):
    """End a pause: upload to amphorae again."""

    DRY_RUN = 'whether there is a pause'
    WAIT = 'every amphora has the newest list'

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        if parsed_args.dry_run:
            was_there = pause_repo.get(engine) is not None
            text = 'The pause would end.'
        else:
            was_there = pause_repo.end(engine)
            text = 'The pause ends.'
        self.say(text if was_there else 'There is no pause.')
        watch.wait(self, parsed_args, conf, engine)

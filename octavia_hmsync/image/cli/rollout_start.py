# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync rollout start, image rollout start."""

import collections
import dataclasses
import typing
import uuid

from oslo_utils import timeutils

from octavia_hmsync.cli import base
from octavia_hmsync.cli import progress
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import windows
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import replacement as replacement_commands
from octavia_hmsync.image.cli import rollout as rollout_commands
from octavia_hmsync.image.cli import rollout_watch
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import estimate
from octavia_hmsync.image import target
from octavia_hmsync.sync.cli import load_balancers

_COLUMNS = ('wave', 'loadbalancer_id', 'name', 'left_out_by')
_LONG_COLUMNS = ('canary', 'topology', 'flavor_id', 'availability_zone',
                 'target_image_id')
_STARTED = ('id', 'state', 'mode', 'loadbalancers', 'canaries', 'waves',
            'excluded', 'blocked')
# Settings that are options both of the command and of [hmsync_image].
SETTINGS = rollout_repo.FROM_OPTIONS


class Starter(base.DatabaseMixin, base.Lister):
    """For commands that start a rollout."""

    COLUMNS = _COLUMNS
    # Whether it is no failure if no load balancer is left to begin with.
    MAY_BE_NOTHING = False
    # Reports errors in the combination of arguments like argparse.
    parser: typing.Any

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--mode', choices=(rollout_repo.REPLACE, rollout_repo.FAILOVER),
            help='make before break, or Octavia\'s own failover, standby '
                 'first')
        for name, text in rollout_commands.NUMBERS.items():
            parser.add_argument(
                f'--{name.replace("_", "-")}', metavar='<number>',
                type=_number, help=text)
        parser.add_argument(
            '--windows', metavar='<windows>',
            help='when something may begin, in UTC: '
                 '"Sat,Sun 01:00-05:00; Wed 02:00-03:00"; empty for always')
        parser.add_argument('--wait', action='store_true',
                            help='show how far it is, on stderr, until it '
                                 'has ended; fails unless it is DONE')
        progress.add_arguments(
            parser, timeout_help='with --wait: give up after so long; it '
                                 'goes on')
        base.add_long(parser, _LONG_COLUMNS)
        base.add_paging(parser, '<load-balancer-id>')
        base.add_dry_run(parser, 'which load balancers would be in which wave')
        self.parser = parser
        return parser

    def take_action(self, parsed_args):
        """Start a rollout with the settings and the cause of options."""
        conf, engine = self.open_database(with_octavia=True)
        return self._act(conf, engine, parsed_args)

    def _act(self, conf, engine, parsed_args):
        from octavia_hmsync.image import whereabouts

        opts = conf[image_conf.GROUP]
        cause = self._read_cause(conf, engine, parsed_args)
        settings = get_settings(parsed_args, rollout_repo.from_options(
            opts, cause=str(cause.kind), cause_value=cause.value,
            only=selection.read_only(conf, engine, parsed_args)))
        active = self.find_same(engine, settings)
        if active is not None:
            return self.go_on(conf, engine, active, parsed_args)
        problem = whereabouts.why_not(conf, cause)
        if problem and not parsed_args.dry_run:
            raise exceptions.NotPossible(problem)
        if problem:
            self._say(problem)
        return self.start(conf, engine, settings, parsed_args,
                          target.Targets(conf))

    def _read_cause(self, conf, engine, parsed_args):
        """Return the Cause of take_action()."""
        raise NotImplementedError

    def find_same(self, engine, settings, undo_of=None):
        """Return the active Rollout, None without; NotPossible if another."""
        active = rollout_repo.get_active(engine)
        if active is not None and not self._is_same(active, settings, undo_of):
            _refuse(active)
        return active

    def _is_same(self, active, settings, undo_of):
        """Tell whether a Rollout is what this command would start."""
        return (active.settings, active.undo_of) == (settings, undo_of)

    def go_on(self, conf, engine, active, parsed_args):
        """Tell of the Rollout that an earlier run has started."""
        self._check_timeout(parsed_args)
        self._prepare(engine, parsed_args)
        self._say(f'Rollout {active.id} is {active.state} already.')
        if parsed_args.wait and not parsed_args.dry_run:
            self._follow(conf, engine, active.id, parsed_args)
        rollout = rollout_watch.get_rollout(engine, active.id)
        return ('id', 'state', 'mode'), [(rollout.id, rollout.state,
                                          rollout.settings.mode)]

    def _check_timeout(self, parsed_args):
        if parsed_args.timeout and not parsed_args.wait:
            self.parser.error('argument --timeout: needs --wait')

    def _follow(self, conf, engine, rollout_id, parsed_args):
        rollout_watch.follow(self.app, conf, engine, rollout_id,
                             parsed_args.interval, parsed_args.timeout,
                             self.app.stderr)

    def _prepare(self, engine, parsed_args):
        """Do, or tell with --dry-run, what comes before the rollout."""

    def start(self, conf, engine, settings, parsed_args, targets,
              undo_of=None):
        """Start a rollout, or tell what it would do, or raise NotPossible."""
        from octavia_hmsync.image.rollout import reading

        self._check_timeout(parsed_args)
        replacement_commands.check_that_somebody_is_up(
            engine, conf.hmsync.offline_after)
        fleet = reading.read_fleet(conf, engine, targets, settings,
                                   timeutils.utcnow(), undo_of)
        found = estimate.get_waves(
            settings, [c for c in fleet.candidates if not c.blocked_by])
        self._tell_left_out(fleet, targets)
        left_out = len(fleet.get_left_out())
        if not found and not self.MAY_BE_NOTHING:
            others = (f' ({left_out} are left out: --dry-run tells why)'
                      if left_out else '')
            text = (f'{_describe_nothing(settings)}{others}: see '
                    f'"octavia-hmsync '
                    f'{"host" if settings.cause == "HOST" else "image"} '
                    f'list".')
            # Of a zone nothing tells whether it is misspelt.
            if settings.cause == 'ZONE' or (
                    left_out and not parsed_args.dry_run):
                raise exceptions.NotPossible(text)
            if not left_out:
                self._say(text)
        if found:
            self._tell_time(engine, settings, found,
                            rollout_watch.count_at_once(conf, engine))
        self._prepare(engine, parsed_args)
        if found and not parsed_args.dry_run:
            rollout_id = self._start(engine, settings,
                                     parsed_args.reason or '', undo_of)
            if parsed_args.wait:
                self._follow(conf, engine, rollout_id, parsed_args)
            rollout = rollout_watch.get_rollout(engine, rollout_id)
            sizes = {is_canary: sum(len(wave) for kind, wave in found
                                    if kind == is_canary)
                     for is_canary in (True, False)}
            return _STARTED, [(
                rollout.id, rollout.state, rollout.settings.mode,
                sum(sizes.values()), sizes[True], len(found),
                len(fleet.excluded), len(fleet.unknown) + sum(
                    bool(c.blocked_by) for c in fleet.candidates))]
        is_long = base.is_long(parsed_args, _LONG_COLUMNS)
        names = load_balancers.Names(engine)
        rows = [row for _id, row in base.take_page([
            (row[1], row) for row in _make_rows(found, fleet, names)],
            parsed_args)]
        return ((*_COLUMNS, *_LONG_COLUMNS) if is_long else _COLUMNS,
                rows if is_long else [row[:len(_COLUMNS)] for row in rows])

    def _say(self, text):
        """Write a remark to stderr, since a program may read stdout."""
        self.app.stderr.write(f'{text}\n')

    def _tell_left_out(self, fleet, targets):
        """Report how many load balancers are of unknown images, and why."""
        whys = collections.Counter(
            targets.get(lb.tag).problem or 'Octavia has no image_id of '
            'their amphorae: see "octavia-hmsync image check".'
            for lb, _why in fleet.unknown)
        for why, number in sorted(whys.items()):
            self._say(f'Load balancers that are left alone, because it is '
                      f'unknown whether they are outdated: {number}. {why}')

    def _tell_time(self, engine, settings, found, at_once):
        if settings.parallel > at_once:
            self._say(f'--parallel allows {settings.parallel} at once, but '
                      f'the octavia-housekeeping services that are up replace '
                      f'{at_once}: see [hmsync_image] replacements_at_once.')
        # For an estimate the clock of this host will do.
        now = timeutils.utcnow()
        known = replace_repo.get_durations(
            engine, rollout_watch.LAST)
        seconds = (estimate.get_end(settings, found, now, min(
            known, default=0), at_once) - now).total_seconds()
        each = (f'the {min(known):.0f} s that the fastest of the last ones '
                f'took' if known else 'no time for each, because none was '
                'done yet')
        numbers = [sum(len(wave) for is_canary, wave in found
                       if is_canary or is_all) for is_all in (True, False)]
        self._say(f'{numbers[0]} load balancers, {numbers[1]} of them '
                  f'canaries, in {len(found)} waves: at least '
                  f'{progress.describe_time(seconds)}, with {each}.')

    def _start(self, engine, settings, reason, undo_of):
        rollout_id = str(uuid.uuid4())
        if not rollout_repo.add(engine, rollout_id, settings, reason,
                                undo_of):
            active = rollout_repo.get_active(engine)
            if active is not None:
                _refuse(active)
            # It has ended since.
            raise exceptions.NotPossible(
                'There was another rollout at this moment: run the command '
                'again.')
        self._say(f'Rollout {rollout_id} runs.')
        return rollout_id


def _describe_nothing(settings):
    from octavia_hmsync.image import causes
    from octavia_hmsync.image import whereabouts

    cause = whereabouts.get_cause(settings)
    if cause.kind is causes.Kind.IMAGE:
        return ('No load balancer is outdated that a rollout could bring to '
                'another image')
    return (f'No load balancer that a rollout could help has an amphora with '
            f'{cause.describe()}')


class StartRollout(Starter):
    """Replace the amphorae of all load balancers that one reason is for.

    With --image amphorae are replaced that have an older image than the
    newest one of their tag; with another option the amphorae that it names,
    whatever their image is; new ones have the newest image. Housekeeping
    replaces their amphorae, some at a time: wave 1 and canaries first, and
    the others when these are done and were watched. --dry-run lists the
    order, and what is left out; on stderr, how long it takes at least.
    Settings that are not given come from [hmsync_image]; the mode is replace
    then.
    """

    # Whether --image need not be given.
    IS_FOR_IMAGES = False

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        selection.add_arguments(parser, self.IS_FOR_IMAGES)
        return parser

    def _read_cause(self, conf, engine, parsed_args):
        return selection.read_cause(conf, engine, parsed_args)


class StartImageRollout(StartRollout):
    """Bring all load balancers to their newest image.

    The short form of "rollout start --image": amphorae are replaced that have
    an older image than the newest one of their tag. Housekeeping replaces
    them, some at a time: wave 1 and canaries first, and the others when these
    are done and were watched. --dry-run lists the order, and what is left
    out; on stderr, how long it takes at least. Settings that are not given
    come from [hmsync_image]; the mode is replace then. With --from-... and
    the like it is as "rollout start".
    """

    IS_FOR_IMAGES = True


def _refuse(active):
    raise exceptions.NotPossible(
        f'There is a rollout that has not ended, {active.id}, which is '
        f'{active.state}: see "octavia-hmsync rollout show", or '
        f'"rollout cancel".')


def _number(text):
    return 0 if text == '0' else base.positive_number(text)


def get_settings(parsed_args, defaults: rollout_repo.Settings):
    """Return a rollout's settings; NotPossible if nothing could ever begin."""
    given = {name: getattr(parsed_args, name) for name in ('mode', *SETTINGS)}
    settings = dataclasses.replace(defaults, **{
        name: value for name, value in given.items() if value is not None})
    for name in ('parallel', 'max_failures'):
        if not getattr(settings, name):
            raise exceptions.NotPossible(
                f'With --{name.replace("_", "-")} 0 nothing would ever '
                f'begin: give it 1 or more.')
    windows.parse(settings.windows)
    return settings


def _make_rows(found, fleet, names):
    """Return load balancers by wave, then those in no wave."""
    whys = fleet.get_left_out()
    rows: list[tuple] = []
    for number, (is_canary, wave) in enumerate(found, 1):
        rows += [(number, c, 'PENDING' if c.is_pending else None, is_canary)
                 for c in wave]
    rows += [(None, c, whys[c.load_balancer_id], False)
             for c in fleet.candidates if c.blocked_by]
    names.read(c.load_balancer_id for _wave, c, _why, _is_canary in rows)
    return [(wave, c.load_balancer_id, names.get(c.load_balancer_id), why,
             is_canary, c.topology, c.flavor_id, c.availability_zone,
             c.target_image_id) for wave, c, why, is_canary in rows] + [
        (None, lb.id, lb.name, whys[lb.id], False, lb.topology, lb.flavor_id,
         lb.availability_zone, None)
        for lb, _why in fleet.excluded + fleet.unknown]

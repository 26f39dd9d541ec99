# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image exclusion."""

import uuid

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.sync.cli import load_balancers

_KINDS = {kind.lower().replace('_', '-'): kind
          for kind in exclusion_repo.KINDS}
_LONGEST = 255


class _ExclusionCommand(base.DatabaseMixin, command.Command):
    """For commands on one exclusion."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('kind', choices=tuple(_KINDS),
                            help='by what load balancers are excluded')
        parser.add_argument(
            'value', metavar='<value>',
            help='name or id of the load balancer; id of the project or of '
                 'the flavor; a tag of load balancers; the name of an '
                 'availability zone of Octavia')
        base.add_dry_run(parser, 'whether it could be done')
        return parser

    def say(self, text):
        self.app.stdout.write(f'{text}\n')


class AddExclusion(_ExclusionCommand):
    """Exclude load balancers from rollouts.

    Replacements that are running go on. "image replace" of one load
    balancer ignores exclusions. Run it again to change the reason and the
    end.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--reason', required=True, metavar='<reason>',
                            help='why, for other operators')
        parser.add_argument(
            '--for', type=base.positive_seconds, dest='seconds',
            metavar='<seconds>', help='only for so long (default: until it '
            'is removed)')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        kind, value = _KINDS[parsed_args.kind], parsed_args.value
        if kind == exclusion_repo.LOAD_BALANCER:
            value = load_balancers.find(engine, value)
        if not 0 < len(value) <= _LONGEST:
            raise exceptions.NotPossible(
                f'An exclusion has a value of 1 to {_LONGEST} characters, '
                f'and {len(value)} were given: see "octavia-hmsync image '
                f'list --long".')
        if parsed_args.dry_run:
            self.say(f'Rollouts would leave {parsed_args.kind} {value} '
                     f'alone.')
            return
        exclusion_repo.add(engine, str(uuid.uuid4()), kind, value,
                           parsed_args.reason, parsed_args.seconds)
        self.say(f'Rollouts leave {parsed_args.kind} {value} alone from now '
                 f'on.')


class RemoveExclusion(_ExclusionCommand):
    """End an exclusion of load balancers from rollouts."""

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        kind, value = _KINDS[parsed_args.kind], parsed_args.value
        there = {e.value for e in exclusion_repo.get_all(engine)
                 if e.kind == kind}
        if value not in there and kind == exclusion_repo.LOAD_BALANCER:
            # By its name; a deleted load balancer has only its id.
            value = load_balancers.find(engine, value)
        if value not in there or not (
                parsed_args.dry_run or
                exclusion_repo.remove(engine, kind, value)):
            raise exceptions.NotPossible(
                f'There is no exclusion of {parsed_args.kind} {value}: see '
                f'"octavia-hmsync image exclusion list".')
        would = 'would leave' if parsed_args.dry_run else 'leave'
        self.say(f'Rollouts {would} {parsed_args.kind} {value} alone no '
                 f'more.')


class ListExclusions(base.DatabaseMixin, base.Lister):
    """List the load balancers that are excluded from rollouts, and why."""

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        return (('kind', 'value', 'reason', 'created_at', 'expires_at'),
                [(e.kind, e.value, e.reason, base.format_time(e.created_at),
                  base.format_time(e.expires_at))
                 for e in exclusion_repo.get_all(engine)])

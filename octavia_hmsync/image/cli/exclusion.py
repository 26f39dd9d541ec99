# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image exclusion."""

import uuid

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.sync.cli import load_balancers

_KINDS = {kind.lower().replace('_', '-'): kind
          for kind in exclusion_repo.KINDS}
_LONGEST = 255
# Any tag will do: it may be given to load balancers later.
_FINDERS = {exclusion_repo.PROJECT: selection.find_project,
            exclusion_repo.FLAVOR: selection.find_flavor,
            exclusion_repo.ZONE: selection.find_zone}


class _ExclusionCommand(base.Change):
    """For commands on one exclusion."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('kind', choices=tuple(_KINDS),
                            help='by what load balancers are excluded')
        parser.add_argument(
            'value', metavar='<value>',
            help='name or id of the load balancer, project or flavor; a tag '
                 'of load balancers; the name of an availability zone of '
                 'Octavia')
        return parser


class AddExclusion(_ExclusionCommand):
    """Exclude load balancers from rollouts.

    Replacements that are running go on. "image replace" of one load
    balancer ignores exclusions. Run it again to change the reason and the
    end.
    """

    NEEDS_REASON = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--for', type=base.positive_seconds, dest='seconds',
            metavar='<seconds>', help='for this long (default: until it is '
            'removed)')
        return parser

    def take_action(self, parsed_args):
        kind = _KINDS[parsed_args.kind]
        conf, engine = self.open_database(
            with_octavia=kind == exclusion_repo.PROJECT)
        value, name = _find(conf, engine, kind, parsed_args.value)
        if not 0 < len(value) <= _LONGEST:
            raise exceptions.NotPossible(
                f'An exclusion has a value of 1 to {_LONGEST} characters, '
                f'and {len(value)} were given: see "octavia-hmsync image '
                f'list --long".')
        number = exclusion_repo.count(engine, kind, value)
        now = (f'{number or "no"} load balancer{"s" * (number > 1)} at '
               f'present')
        label = exclusion_repo.label(kind, value, name)
        if parsed_args.dry_run:
            self.say(f'Rollouts would leave {label} alone: {now}.')
            return
        was_so = any((e.kind, e.value) == (kind, value)
                     for e in exclusion_repo.get_all(engine))
        exclusion_repo.add(engine, str(uuid.uuid4()), kind, value,
                           parsed_args.reason, parsed_args.seconds, name)
        self.say(f'Rollouts leave {label} alone '
                 f'{"already" if was_so else "from now on"}: {now}.')


def _find(conf, engine, kind, value):
    """Return (value, name) of what is excluded, or raise NotPossible."""
    if kind == exclusion_repo.LOAD_BALANCER:
        lb_id = load_balancers.find(engine, value)
        return lb_id, load_balancers.Names(engine).read([lb_id]).get(lb_id)
    if kind in _FINDERS:
        return _FINDERS[kind](conf, engine, value)
    return value, None


class RemoveExclusion(_ExclusionCommand):
    """End an exclusion of load balancers from rollouts."""

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        kind, value = _KINDS[parsed_args.kind], parsed_args.value
        # As it was named then: what it was may be gone, or renamed.
        there = [e for e in exclusion_repo.get_all(engine)
                 if e.kind == kind and value in (e.value, e.name)]
        exact = [e for e in there if e.value == value] or there
        if len(exact) > 1:
            raise exceptions.NotPossible(
                f'There are {len(exact)} exclusions of {parsed_args.kind} '
                f'{value}: give the id of one, '
                f'{", ".join(e.value for e in exact)}.')
        if not exact or not (parsed_args.dry_run or exclusion_repo.remove(
                engine, kind, exact[0].value)):
            self.say(f'There is no exclusion of {parsed_args.kind} {value}.')
            return
        would = 'would no longer' if parsed_args.dry_run else 'no longer'
        self.say(f'Rollouts {would} leave {exact[0].label} alone.')


class ListExclusions(base.ListCommand):
    """List the load balancers that are excluded from rollouts, and why.

    loadbalancers tells how many an exclusion leaves alone now.
    """

    COLUMNS = ('value', 'kind', 'name')
    LONG_COLUMNS = ('loadbalancers', 'reason', 'created_at', 'expires_at')
    METAVAR = '<value>'

    def read(self, _conf, engine, _parsed_args):
        return [(e.value, e.kind, e.name,
                 exclusion_repo.count(engine, e.kind, e.value), e.reason,
                 base.format_time(e.created_at),
                 base.format_time(e.expires_at))
                for e in exclusion_repo.get_all(engine)]

# SPDX-License-Identifier: Apache-2.0

"""Commands on clones: a tenant's own way to another image.

They need neither octavia.conf nor Octavia, only OpenStack credentials. The
same classes are "openstack loadbalancer clone ...".
"""

import typing

from cliff import command

from octavia_hmsync.cli import formatters
from octavia_hmsync.cli import plain
from octavia_hmsync.image.clone import cloner as cloners
from octavia_hmsync.image.clone import diff
from octavia_hmsync.image.clone import preflight
from octavia_hmsync.image.clone import rules

_COLUMNS = ('loadbalancer_id', 'clone_id', 'vip_address', 'floating_ips',
            'members_up', 'phase')
# Of a list, which has the others with --long.
_SHORT = ('clone_id', 'phase', 'floating_ips')
# Seconds to wait for a load balancer that is PENDING.
_BUILD = 600


class _CloneMixin(command.Command):
    """For commands that use the two APIs."""

    # The application of cmd.hmsync, or the shell of python-openstackclient.
    app: typing.Any
    # Whether the command takes one load balancer as its argument.
    takes_one = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        if not self._openstackclient:
            parser.add_argument(
                '--os-cloud', metavar='<cloud>',
                help='a cloud of clouds.yaml (default: OS_CLOUD, or what the '
                     'OS_* variables say)')
        if self.takes_one:
            parser.add_argument(
                'load_balancer', metavar='<load-balancer>',
                help='name or id of the load balancer or of its clone')
        return parser

    @property
    def _openstackclient(self):
        """What holds its connection; None in octavia-hmsync."""
        return getattr(self.app, 'client_manager', None)

    def open(self, parsed_args, timeout=_BUILD):
        """Connect to the APIs."""
        from octavia_hmsync.image.clone import cloud
        from octavia_hmsync.image.clone import floating_ips
        from octavia_hmsync.image.clone import load_balancers

        connection = (
            self._openstackclient.sdk_connection if self._openstackclient
            else cloud.connect(parsed_args.os_cloud))
        return cloners.Cloner(
            load_balancers.LoadBalancers(
                cloud.API(connection, 'load_balancer'), timeout),
            floating_ips.FloatingIPs(cloud.API(connection, 'network')))

    def tell(self, text):
        """Write a remark to stderr, since a program may read stdout."""
        self.app.stderr.write(f'{text}\n')

    def tell_moves(self, moves, dry_run):
        """Write where each floating IP leads now."""
        for move in moves:
            self.tell(f'Floating IP {move.floating_ip.address} '
                      f'{"would lead" if dry_run else "leads"} to '
                      f'{move.fixed_address}.')
        if not moves:
            self.tell('All floating IPs lead there already.')


def _add_timeout(parser, default, text):
    parser.add_argument('--timeout', type=plain.positive_seconds,
                        default=default, metavar='<seconds>',
                        help=f'{text} (default: {default})')


def _add_without_floating_ip(parser, text):
    parser.add_argument('--without-floating-ip', action='store_true',
                        help=text)


def _row(pair):
    return (pair.source.id if pair.source else None, pair.clone.id,
            pair.clone.root['vip_address'],
            formatters.List([each.address for each in
                             (*pair.at_clone, *pair.at_source)]),
            rules.count_up(pair.clone), str(pair.phase))


def _add_create_options(parser):
    parser.add_argument('--name', metavar='<name>',
                        help='of the clone (default: that of its source)')
    _add_without_floating_ip(
        parser, 'clone it though no floating IP leads to it: its clients '
        'must be moved to the new address by DNS')
    parser.add_argument(
        '--leave-out', metavar='<attribute>', action='append', default=[],
        help='an attribute that this release does not know, which the clone '
             'will not have. Can be repeated.')
    parser.add_argument(
        '--owner-is-stopped', action='store_true',
        help='clone it though it is that of a controller, such as one of '
             'Kubernetes, Cluster API or Heat: this is stopped until the '
             'source is gone, and is told then')


def _create_options(parsed_args):
    return cloners.Options(parsed_args.name, parsed_args.without_floating_ip,
                           tuple(parsed_args.leave_out),
                           parsed_args.owner_is_stopped)


class CreateClone(_CloneMixin, plain.ShowOne):
    """Clone a load balancer: another one with the same attributes.

    Octavia builds it from its newest image. Run it again to complete a
    clone that was begun. The source is not touched.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        _add_create_options(parser)
        _add_timeout(parser, _BUILD, 'how long it may take to build it')
        plain.add_dry_run(parser, 'what would not be cloned')
        return parser

    def take_action(self, parsed_args):
        cloner = self.open(parsed_args, parsed_args.timeout)
        options = _create_options(parsed_args)
        pair = cloner.create(parsed_args.load_balancer, options, self.tell,
                             parsed_args.dry_run)
        if pair is None:
            return _COLUMNS, (cloner.resolve(parsed_args.load_balancer)[0],
                              None, None, formatters.List([]), None, None)
        return _COLUMNS, _row(pair)


class CheckClone(_CloneMixin, plain.Lister):
    """Tell whether a load balancer can be cloned, or its clone be used.

    The exit code is 1 if something is REFUSED.
    """

    COLUMNS = ('check', 'result', 'detail')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        _add_create_options(parser)
        return parser

    def run(self, parsed_args):
        """Run the command; the exit code tells the result."""
        self._refused = False
        return super().run(parsed_args) or int(self._refused)

    def take_action(self, parsed_args):
        cloner = self.open(parsed_args)
        source_id, clone = cloner.resolve(parsed_args.load_balancer)
        if clone is None:
            findings = cloner.check(source_id,
                                    _create_options(parsed_args))[0]
        else:
            findings = self._check(cloner.read_pair(source_id, clone))
        self._refused = any(each.result == preflight.REFUSED
                            for each in findings)
        return (self.COLUMNS,
                [(each.check, each.result, each.text) for each in findings])

    @staticmethod
    def _check(pair):
        found = [preflight.Finding('phase', preflight.OK, str(pair.phase))]
        if pair.source is None:
            return found
        name = pair.clone.root['name']
        for check, problems in (
                ('difference', diff.compare(pair.source, pair.clone, name)),
                ('health', rules.find_worse(pair.source, pair.clone))):
            found += [preflight.Finding(check, preflight.REFUSED, str(each))
                      for each in problems] or [
                          preflight.Finding(check, preflight.OK)]
        return found


class SwitchClone(_CloneMixin, plain.ShowOne):
    """Move the floating IPs to the clone; "back" undoes it.

    Only when its members are no worse. All floating IPs move, or none.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        _add_timeout(parser, 60, 'how long to wait for members of the clone')
        parser.add_argument(
            '--allow-differences', action='store_true',
            help='switch though the clone is no longer equal to its source')
        plain.add_dry_run(parser, 'which floating IPs would lead there')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.image.clone import switcher

        cloner = self.open(parsed_args)
        pair, moves = switcher.Switcher(cloner).switch(
            parsed_args.load_balancer, parsed_args.timeout,
            parsed_args.allow_differences, parsed_args.dry_run, self.tell)
        self.tell_moves(moves, parsed_args.dry_run)
        return _COLUMNS, _row(cloner.get_pair(pair.clone.id))


class GoBack(_CloneMixin, plain.ShowOne):
    """Move the floating IPs back to the source, until "retire"."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--delete', action='store_true',
                            help='delete the clone then')
        plain.add_dry_run(parser, 'which floating IPs would lead there')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.image.clone import switcher

        cloner = self.open(parsed_args)
        ways = switcher.Switcher(cloner)
        pair, moves = ways.back(parsed_args.load_balancer,
                                parsed_args.dry_run)
        self.tell_moves(moves, parsed_args.dry_run)
        pair = cloner.get_pair(pair.clone.id)
        if not parsed_args.delete:
            return _COLUMNS, _row(pair)
        if parsed_args.dry_run:
            self.tell(f'The clone {pair.clone.id} would be deleted.')
            return _COLUMNS, _row(pair)
        ways.delete_clone(pair)
        self.tell(f'The clone {pair.clone.id} is deleted.')
        return _COLUMNS, (*_row(pair)[:-1], 'DELETED')


class RetireSource(_CloneMixin, plain.ShowOne):
    """Delete the source of a clone, once it has no connection any more.

    This cannot be undone.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        _add_timeout(parser, 600, 'how long to wait for the end of its '
                                  'connections; then they are cut')
        _add_without_floating_ip(
            parser, 'no floating IP leads to the clone: its clients were '
            'moved to the new address by DNS')
        plain.add_dry_run(parser, 'whether it could be deleted')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.image.clone import switcher

        cloner = self.open(parsed_args)
        pair = switcher.Switcher(cloner).retire(
            parsed_args.load_balancer, parsed_args.timeout,
            parsed_args.without_floating_ip, self.tell,
            dry_run=parsed_args.dry_run)
        if parsed_args.dry_run:
            self.tell('Its source would be deleted.' if pair.source else
                      'Its source is gone.')
            return _COLUMNS, _row(pair)
        return _COLUMNS, (*_row(pair)[:-1], str(rules.Phase.RETIRED))


class ListClones(_CloneMixin, plain.Lister):
    """List all clones of the project that are not retired."""

    COLUMNS = _SHORT
    takes_one = False

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        plain.add_long(parser, [name for name in _COLUMNS
                                if name not in _SHORT])
        plain.add_paging(parser, '<clone-id>')
        return parser

    def take_action(self, parsed_args):
        rows = plain.take_page([
            (pair.clone.id, _row(pair))
            for pair in self.open(parsed_args).get_pairs()], parsed_args)
        names = (_COLUMNS if plain.is_long(parsed_args, set(_COLUMNS) -
                                           set(_SHORT)) else _SHORT)
        return names, [tuple(row[_COLUMNS.index(name)] for name in names)
                       for _id, row in rows]

# SPDX-License-Identifier: Apache-2.0

"""Commands on the amphora management network."""


from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network import boot_options
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network import marks

_ID_COLUMNS = {'network_id': marks.NETWORK, 'subnet_id': marks.SUBNET,
               'amphora_security_group_id': marks.AMPHORA_GROUP,
               'health_manager_security_group_id':
                   marks.HEALTH_MANAGER_GROUP}


class _NetworkMixin(base.DatabaseMixin):
    """For commands that also need Neutron."""

    def connect(self):
        """Parse octavia.conf; return (conf, engine, connection)."""
        from octavia_hmsync import cloud

        conf, engine = self.open_database(with_octavia=True)
        return conf, engine, cloud.connect(conf)


def _show(conf, ids, **others):
    """Return column names and values: those for octavia.conf, and more."""
    values = {'name': conf[network_conf.GROUP].network_name,
              **{name: ids.get(role) for name, role in _ID_COLUMNS.items()},
              **boot_options.option_values(
                  ids.get(marks.NETWORK), ids.get(marks.AMPHORA_GROUP)),
              **others}
    return (tuple(values), tuple(
        formatters.Lines(value) if isinstance(value, list) else value
        for value in values.values()))


class Ensure(_NetworkMixin, base.ShowOne):
    """Make the amphora management network, or complete it.

    A network, a subnet and two security groups, with the names and addresses
    of [hmsync_network]. Again it changes nothing. If it fails it takes back
    what it has made. amp_boot_network_list and amp_secgroup_list are what
    [controller_worker] needs, unless supply_options is on.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--adopt', action='store_true',
            help='use a network, a subnet and security groups that are '
                 'there already and have these names; "network delete" will '
                 'leave them')
        base.add_dry_run(parser, 'what it would make or put right')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.network import network

        conf, engine, connection = self.connect()
        result = network.ensure(conf, engine, connection, parsed_args.adopt,
                                parsed_args.dry_run)
        return _show(conf, result.ids, changes=result.changes,
                     notes=result.notes)


class Show(_NetworkMixin, base.ShowOne):
    """Show the amphora management network.

    differences is what "network ensure" would put right, repairs how often
    a housekeeper has put something right.
    """

    def take_action(self, parsed_args):
        from octavia_hmsync.network import changes
        from octavia_hmsync.network import network

        conf, engine, connection = self.connect()
        name = conf[network_conf.GROUP].network_name
        row = network_repo.get_row(engine, name)
        if row is None or row.network_id is None:
            raise exceptions.NotPossible(
                f'There is no management network {name}: run '
                f'"octavia-hmsync network ensure".')
        found = network.Ensurance(
            conf, connection, row, changes.Changes(conf, dry_run=True),
            is_repair=True).run()
        return _show(conf, found.ids, differences=found.changes,
                     notes=found.notes, repairs=row.repairs,
                     ensured_at=base.format_time(row.ensured_at),
                     reconciled_at=base.format_time(row.reconciled_at))


class Delete(_NetworkMixin, base.Lister):
    """Delete the amphora management network.

    Adopted parts are released. What is still in use is orphaned: it stays,
    with another name, and is never used again.
    """

    COLUMNS = ('part', 'outcome', 'users')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        base.add_dry_run(parser, 'what would become of each part')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.network import removal

        conf, engine, connection = self.connect()
        removed = removal.delete(conf, engine, connection,
                                 parsed_args.dry_run)
        return (self.COLUMNS,
                [(r.title, r.outcome, formatters.Lines(r.users))
                 for r in removed])

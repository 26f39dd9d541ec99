# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image leaks."""

from octavia_hmsync.cli import base

_OLDER_THAN = 3600


class Leaks(base.ListCommand):
    """List what is left of former amphorae.

    These are instances of the compute service and ports of Neutron that are
    named like those of an amphora which Octavia does not know, or has
    deleted; amphorae that no worker builds any more; and ports of
    distributors of a cluster that does not exist. Nothing is deleted without
    --delete, and then each one is looked at again right before. After a
    restore of the database from a backup, every amphora which was built
    since is listed: what may serve is KEPT, according to Neutron and its
    agent. Two Octavias whose amphorae are in one project take each other's
    for leaks: never delete there. With --limit and --marker it deletes what
    it lists.
    """

    COLUMNS = ('id', 'outcome', 'reason')
    LONG_COLUMNS = ('kind', 'name', 'amphora_id', 'loadbalancer_id', 'age')

    _has_failed = False

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--older-than', type=base.positive_seconds, metavar='<seconds>',
            default=_OLDER_THAN,
            help='nothing that is younger than this, or was changed since, '
                 'is a leak: it may be built or deleted at this moment '
                 f'(default: {_OLDER_THAN})')
        parser.add_argument('--delete', action='store_true',
                            help='delete it')
        base.add_reason(parser)
        return parser

    def is_order(self, parsed_args):
        return parsed_args.delete

    def run(self, parsed_args):
        """List, and delete; what could not be deleted is a failure."""
        code = super().run(parsed_args)
        return 1 if self._has_failed else code

    def take_action(self, parsed_args):
        from octavia_hmsync.image.recovery import leaks

        conf, engine = self.open_database(with_octavia=True)
        known = leaks.Leaks(conf, engine, parsed_args.older_than)
        found, is_complete = known.find()
        found = [leak for _id, leak in base.take_page(
            [(leak.id, leak) for leak in found], parsed_args)]
        rows = []
        if not is_complete:
            rows.append((None, 'NOT_CHECKED',
                         'The compute service cannot be asked which '
                         'instances are amphorae', 'INSTANCE', None, None,
                         None, None))
        if not parsed_args.delete:
            return self.choose(parsed_args, rows + [
                _make_row(leak, leak.keep, 'KEPT' if leak.keep else 'LEAKED')
                for leak in found])
        for leak, kept, error in leaks.delete_all(known, found):
            if error is not None:
                self._has_failed = True
                self.order_error = 'Not all could be deleted.'
                self.app.stderr.write(f'{error}\n')
            rows.append(_make_row(
                leak, kept, 'FAILED' if error is not None else
                'KEPT' if kept else 'DELETED'))
        return self.choose(parsed_args, rows)


def _make_row(leak, kept, outcome):
    reason = f'{leak.reason}; {kept}' if kept else leak.reason
    return (leak.id, outcome, reason, str(leak.kind), leak.name,
            leak.amphora_id, leak.load_balancer_id,
            None if leak.age is None or leak.age == float('inf')
            else round(leak.age))

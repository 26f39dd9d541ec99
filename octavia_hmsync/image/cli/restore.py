# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image restore."""

from octavia_hmsync.cli import base
from octavia_hmsync import compat
from octavia_hmsync.sync.cli import load_balancers

_COLUMNS = ('amphora_id', 'check', 'result', 'details')
_OLDER_THAN = 3600


class Restore(base.DatabaseMixin, base.Lister):
    """Bring back a load balancer that serves, after a failed failover.

    It must be in ERROR because the failover of its amphora failed, or
    PENDING_UPDATE because an octavia-worker died with it. Its amphorae, the
    compute service and Neutron are asked what serves, and the findings are
    shown. If it is proven to serve, it becomes ACTIVE and its serving
    amphorae ALLOCATED again, in one transaction. Amphorae are not touched,
    nothing is built and nothing is deleted.
    """

    ARGUMENT = ('loadbalancer', 'its name or id')
    COLUMNS = _COLUMNS

    _is_refused = False

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--older-than', type=base.positive_seconds, metavar='<seconds>',
            default=_OLDER_THAN,
            help='refuse a load balancer that is PENDING_UPDATE and was '
                 'changed less than this ago, by the clocks of the '
                 'controllers: a worker may be busy with it '
                 f'(default: {_OLDER_THAN})')
        base.add_dry_run(parser, 'what is proven, and what would be done')
        return parser

    def run(self, parsed_args):
        """Look, and restore; a refusal is reported after the table."""
        code = super().run(parsed_args)
        if self._is_refused:
            self.app.stderr.write(
                f'Load balancer {parsed_args.loadbalancer} is left as it is: '
                f'it is not proven that it serves, or another process may be '
                f'changing it. The results say why.\n')
            return 1
        return code

    def take_action(self, parsed_args):
        from octavia_hmsync.image.recovery import restore

        conf, engine = self.open_database(with_octavia=True)
        restorer = restore.Restorer(conf, engine, parsed_args.older_than)
        snapshot, verdict = restorer.look(load_balancers.find(
            engine, parsed_args.loadbalancer))
        if snapshot.status == compat.ACTIVE:
            # What is so already is no failure.
            return _COLUMNS, [(None, 'State', 'Success', 'It is ACTIVE: '
                               'there is nothing to restore.')]
        self._is_refused = not verdict.amphorae
        if self._is_refused:
            self.order_error = 'It is left as it is.'
        if verdict.amphorae and not parsed_args.dry_run:
            restorer.restore(snapshot, verdict)
        return (_COLUMNS,
                [(row.amphora_id, row.check, row.found.name,
                  row.found.details) for row in verdict.rows])

# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync order list."""

from octavia_hmsync.cli import base
from octavia_hmsync.db import order as order_repo
from octavia_hmsync import exceptions


class ListOrders(base.ListCommand):
    """List what operators ordered, the newest first.

    An order is a run of a command that changes something, dry runs aside.
    user is who called sudo, else the user of the process. state is GIVEN
    while the command runs and after it was killed, FAILED if it was refused
    or could not do all.
    """

    COLUMNS = ('created_at', 'user', 'host', 'state', 'command')
    LONG_COLUMNS = ('id', 'arguments', 'reason', 'error', 'os_user',
                    'sudo_user', 'finished_at')
    METAVAR = '<order-id>'

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        marker = parsed_args.marker
        if marker is not None and not order_repo.exists(engine, marker):
            raise exceptions.NotPossible(
                f'There is no order {marker} to go on from: give --marker '
                f'the last id of the page before, or begin anew without.')
        return self.choose(parsed_args, [
            (base.format_time(o.created_at), o.sudo_user or o.os_user,
             o.host, o.state, o.command, o.id, o.arguments, o.reason,
             o.error, o.os_user, o.sudo_user, base.format_time(o.finished_at))
            for o in order_repo.get_page(engine, marker, parsed_args.limit)])

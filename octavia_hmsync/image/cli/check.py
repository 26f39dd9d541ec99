# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image check."""

from octavia_hmsync.cli import base
from octavia_hmsync.cli import finding
from octavia_hmsync.cli import formatters
from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image import target
from octavia_hmsync.sync.cli import load_balancers

# Stands for the id of each load balancer in what they have in common.
_ID = 'ID'


class _LoadBalancers(formatters.Objects):
    """Load balancers: all for programs, the first ones for people."""

    def __init__(self, found):
        super().__init__(found, lambda each: each['name'] or each['id'])

    def human_readable(self):
        """Return some lines."""
        more = len(self._value) - progress.NAMED
        return self.separator.join([
            *map(self._describe, self._value[:progress.NAMED]),
            *([f'and {more} more'] if more > 0 else [])])


class Check(base.Checks, base.Lister):
    """Check what would make a replacement fail, before it begins.

    Looks at the database and asks the image service and Neutron; changes
    nothing. For one load balancer all checks are shown. Without one, all
    outdated load balancers are checked, and those of unknown images, and
    only their problems are shown: a cause that several have in common once,
    with ID in the place of their ids. By --limit and --marker a large fleet
    is checked in parts. The exit code is 0 if nothing is in the
    way, 1 if an operator should look at something, and 2 if a replacement
    would fail or be refused.
    """

    COLUMNS = ('check', 'result', 'loadbalancers', 'details')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'loadbalancer', metavar='<loadbalancer>', nargs='?',
            help='only this one (name or id), be it outdated or not')
        base.add_paging(parser, '<load-balancer-id>')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.image.preflight import run

        conf, engine = self.open_database(with_octavia=True)
        known = inventory.Inventory(conf, engine)
        targets = target.Targets(conf)
        if parsed_args.loadbalancer is None:
            wanted = self._take_page(engine, _get_outdated(
                known, targets, parsed_args.marker), parsed_args)
        else:
            wanted = [known.get(load_balancers.find(
                engine, parsed_args.loadbalancer))]
        rows = run.run_all(conf, engine, wanted, targets)
        self._code = finding.worst(row.found for row in rows)
        if parsed_args.loadbalancer is None:
            rows = [row for row in rows if row.load_balancer_id is None or
                    row.found.severity]
        return self.COLUMNS, _group(rows, {each.id: each.name
                                           for each in wanted})

    def _take_page(self, engine, found, parsed_args):
        marker, limit = parsed_args.marker, parsed_args.limit
        if marker is not None and not inventory_repo.exists(engine, marker):
            raise exceptions.NotPossible(
                f'There is no load balancer {marker} to go on from: give '
                f'--marker the id that the page before named, or begin anew '
                f'without.')
        if limit is None or len(found) <= limit:
            return found
        # Those without a problem are in no row.
        self.app.stderr.write(
            f'{limit} of {len(found)} are checked; the next ones: --marker '
            f'{found[limit - 1].id}\n')
        return found[:limit]


def _group(rows, names):
    """Return a row for each cause, by {id of a load balancer: its name}."""
    causes: dict[tuple, list] = {}
    for row in rows:
        # A load balancer's own id is no other cause.
        details = (row.found.details or '').replace(
            row.load_balancer_id or _ID, _ID)
        causes.setdefault((row.check, row.found.name, details,
                           row.load_balancer_id is None), []).append(row)
    return [(check, result, _LoadBalancers(
        {'id': row.load_balancer_id, 'name': names[row.load_balancer_id]}
        for row in found if row.load_balancer_id),
        found[0].found.details if len(found) == 1 else details)
        for (check, result, details, _is_common), found in causes.items()]


def _get_outdated(known, targets, after):
    """Return all load balancers that are outdated, or may be, by id."""
    def judge(load_balancer):
        try:
            image_id = targets.get(load_balancer.tag).image_id
        except exceptions.CloudUnavailable:
            image_id = None
        return outdated.judge(load_balancer, image_id)

    return [load_balancer for load_balancer in known.get_page(after)
            if judge(load_balancer) is not outdated.Outdated.NO]

# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image list."""

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image import target

_COLUMNS = ('loadbalancer_id', 'name', 'outdated', 'blocked_by')
_LONG_COLUMNS = ('project_id', 'topology', 'tag', 'target_image_id',
                 'provisioning_status', 'flavor_id', 'flavor',
                 'availability_zone', 'haproxy_version', 'amphorae')

# Load balancers that are read at once if some of them are not shown.
_AT_ONCE = 1000


class ListImages(base.DatabaseMixin, base.Lister):
    """List the load balancers, and whether they have the newest image.

    target_image_id is what the next amphora of a load balancer would boot: the
    newest active image with the tag of its flavor, else of
    [controller_worker] amp_image_tag. outdated is NO if all of its amphorae
    have it, YES if none has, MIXED if they have different ones, and UNKNOWN
    if that is not known. blocked_by is what is in the way of a replacement,
    as far as the database has it; "image check" looks further.
    """

    COLUMNS = _COLUMNS

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--outdated', type=str.upper, action='append',
            choices=[str(value) for value in outdated.Outdated],
            help='only those of which this is so; can be repeated')
        parser.add_argument(
            '--project', metavar='<project>',
            help='only those of this project (name or id)')
        parser.add_argument(
            '--tag', metavar='<tag>',
            help='only those whose next amphora boots an image of this tag')
        parser.add_argument(
            '--flavor', metavar='<flavor>',
            help='only those of this flavor (name or id)')
        parser.add_argument(
            '--topology', type=str.upper,
            choices=(*compat.AMPHORAE_OF_TOPOLOGY,
                     compat.TOPOLOGY_ACTIVE_ACTIVE),
            help='only those with this topology')
        parser.add_argument(
            '--availability-zone', metavar='<zone>',
            help='only those in this availability zone of Octavia')
        parser.add_argument(
            '--ask-agents', action='store_true',
            help='show haproxy_version, too: ask the agents of the amphorae '
                 'that are shown; "?" stands for an agent that does not tell')
        base.add_paging(parser, '<load-balancer-id>')
        base.add_long(parser, _LONG_COLUMNS)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        marker = parsed_args.marker
        if marker is not None and not inventory_repo.exists(engine, marker):
            raise exceptions.NotPossible(
                f'There is no load balancer {marker} to go on from: give '
                f'--marker the last id of the page before, or begin anew '
                f'without.')
        known = inventory.Inventory(conf, engine)
        wanted = {'topology': parsed_args.topology}
        for name, value, find in (
                ('flavor', parsed_args.flavor, selection.find_flavor),
                ('project_id', parsed_args.project, selection.find_project),
                ('availability_zone', parsed_args.availability_zone,
                 selection.find_zone),
                ('tag', parsed_args.tag, _find_tag)):
            if value is not None:
                wanted[name] = find(conf, engine, value)[0]
        targets = target.Targets(conf)
        found = _find(known, targets, wanted, parsed_args)
        versions = None
        if parsed_args.ask_agents:
            from octavia_hmsync.amphora import agent_info

            versions = agent_info.get_haproxy_versions(conf, [
                (amphora.id, amphora.lb_network_ip) for load_balancer in found
                for amphora in outdated.get_allocated(load_balancer)])
        columns: tuple[str, ...] = _COLUMNS
        if base.is_long(parsed_args, _LONG_COLUMNS):
            columns += _LONG_COLUMNS
        elif parsed_args.ask_agents:
            columns += 'haproxy_version',
        rows = (_make_row(load_balancer, targets, versions, known)
                for load_balancer in found)
        return columns, [tuple(row[name] for name in columns)
                         for row in rows]


def _find_tag(conf, engine, value):
    if value not in inventory.Inventory(conf, engine).get_tags():
        raise exceptions.NotPossible(
            f'No load balancer boots from an image with the tag {value}: it '
            f'is neither [controller_worker] amp_image_tag nor the '
            f'amp_image_tag of a flavor, see "openstack loadbalancer '
            f'flavorprofile list".')
    return value, None


def _find(known, targets, wanted, parsed_args):
    """Return the load balancers that are wanted.

    The database cannot tell which are outdated. If only some of these are
    wanted, pages are read until there are enough.
    """
    after, limit = parsed_args.marker, parsed_args.limit
    if not parsed_args.outdated:
        return known.get_page(after, limit, **wanted)
    size = limit and max(limit, _AT_ONCE)
    found: list = []
    while True:
        page = known.get_page(after, size, **wanted)
        found += [load_balancer for load_balancer in page if outdated.judge(
            load_balancer, targets.get(load_balancer.tag).image_id)
            in parsed_args.outdated]
        if limit is None or len(found) >= limit or len(page) < size:
            return found[:limit]
        after = page[-1].id


def _make_row(load_balancer, targets, versions, known):
    image_id = targets.get(load_balancer.tag).image_id
    allocated = outdated.get_allocated(load_balancer)
    haproxy = None
    if versions is not None:
        haproxy = formatters.List(sorted(
            {versions.get(amphora.id, '?') for amphora in allocated}))
    return {
        'loadbalancer_id': load_balancer.id,
        'name': load_balancer.name,
        'outdated': str(outdated.judge(load_balancer, image_id)),
        'blocked_by': formatters.List([
            str(block) for block in outdated.get_blocks(load_balancer,
                                                        image_id)]),
        'project_id': load_balancer.project_id,
        'topology': load_balancer.topology,
        'tag': load_balancer.tag,
        'target_image_id': image_id,
        'provisioning_status': load_balancer.status,
        'flavor_id': load_balancer.flavor_id,
        'flavor': known.get_flavor_name(load_balancer.flavor_id),
        'availability_zone': load_balancer.availability_zone,
        'haproxy_version': haproxy,
        'amphorae': formatters.Objects(
            [{'id': amphora.id, 'role': amphora.role,
              'image_id': amphora.image_id} for amphora in allocated],
            lambda amphora: f'{amphora["id"]} {amphora["role"]}: '
                            f'{amphora["image_id"] or "?"}')}

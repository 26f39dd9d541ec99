# SPDX-License-Identifier: Apache-2.0

"""Commands on amphorae."""

from octavia_hmsync import addresses as addr
from octavia_hmsync.amphora import upload_result
from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import drain
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.db import amphora_page as page_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import timing

_UNKNOWN = '?'


class ListAmphorae(base.ListCommand):
    """List the amphorae, and how far each one is with its list.

    An amphora without a generation has not been reached yet. adoption tells
    what is known of whether it uses the list that it acknowledged: ADOPTED
    (a heartbeat shows it), PENDING (a heartbeat may still show it),
    NOT_ADOPTED (its heartbeats show another list: its image is too old) or
    UNPROVEN (its heartbeats would be the same with its old list). An
    adoption without adopted_via was found from regular heartbeats.
    """

    COLUMNS = ('id', 'status', 'result', 'adoption')
    LONG_COLUMNS = ('loadbalancer_id', 'loadbalancer_name', 'role',
                    'lb_network_ip', 'generation', 'error', 'applied_at',
                    'attempts', 'next_attempt_at', 'adopted_at',
                    'adopted_via', 'held_since', 'certificate_ends_at')
    METAVAR = '<amphora>'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--loadbalancer', metavar='<load-balancer>',
            help='only those of this load balancer (name or id)')
        parser.add_argument(
            '--role', type=str.upper, choices=compat.ROLES_BY_HARM,
            help='only those with this role')
        parser.add_argument(
            '--status', type=str.upper, choices=compat.AMPHORA_STATUSES,
            help='only those with this status')
        parser.add_argument(
            '--result', type=str.upper, choices=upload_result.ALL,
            help='only those whose last attempt ended so')
        parser.add_argument(
            '--not-adopted', action='store_true',
            help='only amphorae that acknowledge a list but do not use it: '
                 'bring them to a newer image with "image replace"')
        parser.add_argument(
            '--health-manager', metavar='<health-manager>',
            help='only those whose list holds the address of this health '
                 'manager')
        parser.add_argument(
            '--certificate-ends-within', metavar='<days>',
            type=base.positive_number,
            help='only those whose certificate ends within so many days, or '
                 'has ended: see "rollout start" with this option')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        members = hm_repo.get_all(engine)
        settings = timing.Settings.from_conf(conf)
        marker = parsed_args.marker
        if marker is not None and not page_repo.exists(engine, marker):
            raise exceptions.NotPossible(base.describe_no_marker(marker))
        wanted = self._get_wanted(engine, parsed_args, members, settings)
        rows = page_repo.get_page(engine, wanted, marker, parsed_args.limit)
        judged = doubt_repo.judge_page(engine, rows, members, settings)
        return self.choose(parsed_args, [
            (row.id, row.status, row.result, _format_adoption(judged, row.id),
             row.load_balancer_id, row.load_balancer_name, row.role,
             row.lb_network_ip, row.generation, row.error,
             base.format_time(row.applied_at), row.attempts or 0,
             base.format_time(row.next_attempt_at),
             base.format_time(row.adopted_at), row.adopted_via,
             base.format_time(row.held_since),
             base.format_time(row.cert_expiration)) for row in rows])

    def _get_wanted(self, engine, parsed_args, members, settings):
        load_balancer_id = address = ids = ends_within = None
        if parsed_args.certificate_ends_within is not None:
            ends_within = parsed_args.certificate_ends_within * 86400
        if parsed_args.loadbalancer is not None:
            load_balancer_id = _find_load_balancer(
                engine, parsed_args.loadbalancer)
        if parsed_args.health_manager is not None:
            _row, member = drain.find(engine, parsed_args.health_manager)
            address = member.address
        if parsed_args.not_adopted:
            # The database alone cannot judge heartbeats.
            ids = [amphora_id for amphora_id, found in doubt_repo.judge_all(
                engine, members, settings).items()
                if found is adoption.Adoption.NOT_ADOPTED]
        return page_repo.Wanted(ids, load_balancer_id, parsed_args.status,
                                parsed_args.role, parsed_args.result, address,
                                ends_within)


def _find_load_balancer(engine, name):
    """Return the id of a load balancer with amphorae, or NotPossible."""
    load_balancer_id = load_balancers.find(engine, name)
    if not page_repo.get_page(engine, page_repo.Wanted(
            load_balancer_id=load_balancer_id), limit=1):
        raise exceptions.NotPossible(
            f'Load balancer {name} has no amphora with an agent: see '
            f'"octavia-hmsync amphora list".')
    return load_balancer_id


class ShowAmphora(base.DatabaseMixin, base.ShowOne):
    """Show all that is known of one amphora and its list.

    may_be_using are the other lists that it may be using instead of its own,
    until a heartbeat tells; "?" stands for an unknown list.
    """

    ARGUMENT = ('amphora', 'the id of the amphora')

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        rows = page_repo.get_page(engine,
                                  page_repo.Wanted([parsed_args.amphora]))
        if not rows:
            raise exceptions.NotPossible(
                f'There is no amphora {parsed_args.amphora} with an agent: '
                f'see "octavia-hmsync amphora list".')
        row, = rows
        judged = doubt_repo.judge_page(engine, rows, hm_repo.get_all(engine),
                                       timing.Settings.from_conf(conf))
        others = [
            None if isinstance(other, adoption.Unknown)
            else list(addr.split_list(addr.join_list(other))) for other in
            previous_repo.get_all(engine, rows).get(row.id, ())]
        own = (None if row.controller_ip_port_list is None else
               formatters.List(addr.split_list(row.controller_ip_port_list)))
        return (('id', 'loadbalancer_id', 'loadbalancer_name', 'status',
                 'role', 'lb_network_ip', 'generation',
                 'controller_ip_port_list', 'applied_at',
                 'adoption', 'adopted_at', 'adopted_via', 'not_adopted_at',
                 'may_be_using', 'result', 'error', 'attempts',
                 'attempted_generation', 'next_attempt_at', 'claimed_until',
                 'held_since', 'certificate_ends_at'),
                (row.id, row.load_balancer_id, row.load_balancer_name,
                 row.status, row.role, row.lb_network_ip, row.generation, own,
                 base.format_time(row.applied_at),
                 _format_adoption(judged, row.id),
                 base.format_time(row.adopted_at), row.adopted_via,
                 base.format_time(row.not_adopted_at),
                 formatters.Objects(others, lambda each: _UNKNOWN
                                    if each is None
                                    else addr.join_list(each)),
                 row.result, row.error,
                 row.attempts or 0, row.attempted_generation,
                 base.format_time(row.next_attempt_at),
                 base.format_time(row.claim_expires_at),
                 base.format_time(row.held_since),
                 base.format_time(row.cert_expiration)))


def _format_adoption(judged, amphora_id):
    return judged[amphora_id].value if amphora_id in judged else None

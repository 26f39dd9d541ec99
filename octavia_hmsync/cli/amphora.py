#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Commands on amphorae."""

from cliff import lister

from octavia_hmsync.cli import base
from octavia_hmsync.cli import drain
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import doubt as doubt_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.db.repositories import previous_list as previous_repo
from octavia_hmsync import exceptions
from octavia_hmsync.membership import addresses as addr
from octavia_hmsync.membership import adoption
from octavia_hmsync.membership import timing
from octavia_hmsync.membership import upload_result


class ListAmphorae(base.DatabaseMixin, lister.Lister):
    """List the amphorae, and how far each one is with its list.

    An amphora without a generation has not been reached yet. adoption tells
    what is known of whether it uses the list that it acknowledged: ADOPTED
    (a heartbeat shows it), PENDING (it may still show), NOT_ADOPTED (its
    heartbeats show another list: its image is too old) or UNPROVEN (they
    would look the same with its old list). An adoption without adopted_via
    was seen from how regularly it is heard.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--not-adopted', action='store_true',
            help='only those that acknowledge a list and do not use it: '
                 'fail them over to a newer image')
        parser.add_argument(
            '--result', type=str.upper, choices=upload_result.ALL,
            help='only those whose last attempt ended so')
        parser.add_argument(
            '--loadbalancer', metavar='<loadbalancer>',
            help='only those of this load balancer')
        parser.add_argument(
            '--health-manager', metavar='<health-manager>',
            help='only those whose list holds the address of this health '
                 'manager')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        judged = doubt_repo.judge_all(engine, hm_repo.get_all(engine),
                                      timing.Settings.from_conf(conf))

        address = None
        if parsed_args.health_manager is not None:
            _row, member = drain.find(engine, parsed_args.health_manager)
            address = member.address

        def is_wanted(row):
            return ((not parsed_args.not_adopted or judged.get(row.id) is
                     adoption.Adoption.NOT_ADOPTED) and
                    parsed_args.result in (None, row.result) and
                    parsed_args.loadbalancer in (None,
                                                 row.load_balancer_id) and
                    (address is None or address in addr.split_list(
                        row.controller_ip_port_list)))

        amphorae = amphora_repo.get_rows(engine)
        if parsed_args.loadbalancer is not None and not any(
                row.load_balancer_id == parsed_args.loadbalancer
                for row in amphorae):
            raise exceptions.NotPossible(
                f'No amphora of load balancer {parsed_args.loadbalancer} has '
                f'an agent: see "octavia-hmsync amphora list".')
        rows = [
            (row.id, row.lb_network_ip, row.generation, row.result,
             base.format_time(row.applied_at), row.attempts or 0, row.error,
             _format_adoption(judged, row.id),
             base.format_time(row.adopted_at), row.adopted_via)
            for row in amphorae if is_wanted(row)]
        return (('id', 'lb_network_ip', 'generation', 'result', 'applied_at',
                 'attempts', 'error', 'adoption', 'adopted_at',
                 'adopted_via'), rows)


class ShowAmphora(base.DatabaseMixin, base.ShowOne):
    """Show all that is known of one amphora and its list.

    may_be_using are the other lists that it may be using instead of its own,
    until a heartbeat tells; "?" stands for one that nobody knows.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('amphora', metavar='<amphora>',
                            help='the id of the amphora')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        row = next((row for row in amphora_repo.get_rows(engine)
                    if row.id == parsed_args.amphora), None)
        if row is None:
            raise exceptions.NotPossible(
                f'No amphora {parsed_args.amphora} has an agent: see '
                f'"octavia-hmsync amphora list".')
        judged = doubt_repo.judge_all(engine, hm_repo.get_all(engine),
                                      timing.Settings.from_conf(conf))
        others = [
            '?' if isinstance(other, adoption.Unknown)
            else addr.join_list(other) for other in
            previous_repo.get_all(engine, [row]).get(row.id, ())]
        return (('id', 'load_balancer_id', 'lb_network_ip', 'generation',
                 'controller_ip_port_list', 'applied_at', 'adoption',
                 'adopted_at', 'adopted_via', 'not_adopted_at',
                 'may_be_using', 'result', 'error', 'attempts',
                 'attempted_generation',
                 'next_attempt_at', 'claimed_until', 'held_since'),
                (row.id, row.load_balancer_id, row.lb_network_ip,
                 row.generation, row.controller_ip_port_list,
                 base.format_time(row.applied_at),
                 _format_adoption(judged, row.id),
                 base.format_time(row.adopted_at), row.adopted_via,
                 base.format_time(row.not_adopted_at), '\n'.join(others),
                 row.result, row.error, row.attempts or 0,
                 row.attempted_generation,
                 base.format_time(row.next_attempt_at),
                 base.format_time(row.claim_expires_at),
                 base.format_time(row.held_since)))


def _format_adoption(judged, amphora_id):
    return judged[amphora_id].value if amphora_id in judged else None

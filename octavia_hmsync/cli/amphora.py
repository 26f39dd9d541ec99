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
from octavia_hmsync.db.repositories import adoption as adoption_repo
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.membership import adoption
from octavia_hmsync.membership import plan


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
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        members = hm_repo.get_all(engine)
        judged = adoption_repo.judge_all(engine, members,
                                         plan.Settings.from_conf(conf))
        rows = [
            (row.id, row.lb_network_ip, row.generation, row.result,
             base.format_time(row.applied_at), row.attempts or 0, row.error,
             judged[row.id].value if row.id in judged else None,
             base.format_time(row.adopted_at), row.adopted_via)
            for row in amphora_repo.get_rows(engine)
            if not parsed_args.not_adopted or
            judged.get(row.id) is adoption.Adoption.NOT_ADOPTED]
        return (('id', 'lb_network_ip', 'generation', 'result', 'applied_at',
                 'attempts', 'error', 'adoption', 'adopted_at',
                 'adopted_via'), rows)

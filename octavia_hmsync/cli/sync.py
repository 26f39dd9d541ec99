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

"""Commands on the published list."""

import collections

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.db.repositories import adoption as adoption_repo
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import claim as claim_repo
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync import exceptions
from octavia_hmsync.membership import addresses as addr
from octavia_hmsync.membership import adoption
from octavia_hmsync.membership import plan
from octavia_hmsync.membership import rollout


class ShowStatus(base.DatabaseMixin, base.ShowOne):
    """Show the newest published list and how far the amphorae are with it.

    due counts the amphorae that are not at the newest generation, whatever
    the reason; the results are those of the last attempt at each amphora.
    adopted, pending, not_adopted and unproven tell of those that have
    acknowledged a list whether they use it: see "amphora list --help".
    suspects are addresses with which amphorae fell silent; see "sync retry".
    """

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        newest = generation_repo.get_newest(engine)
        counts = amphora_repo.count(engine, newest.number if newest else 0)
        members = hm_repo.get_all(engine)
        judged = adoption_repo.judge_all(engine, members,
                                         plan.Settings.from_conf(conf))
        present = {row.id for row in amphora_repo.get_rows(engine)}
        adoptions = collections.Counter(
            state for amphora_id, state in judged.items()
            if amphora_id in present)
        suspects = rollout.get_suspects(
            generation_repo.get_suspects(engine), members)
        return (('generation', 'status', 'controller_ip_port_list',
                 'suspects', 'amphorae', 'due', 'applied', 'unreachable',
                 'rejected', 'unsupported',
                 *(state.value.lower() for state in adoption.Adoption)),
                (newest.number if newest else None,
                 newest.status if newest else None,
                 addr.join_list(newest.addresses) if newest else '',
                 addr.join_list(addr.canonical(suspects)),
                 counts.amphorae, counts.due,
                 *(counts.results.get(result, 0)
                   for result in amphora_repo.RESULTS),
                 *(adoptions[state] for state in adoption.Adoption)))


class Run(base.DatabaseMixin, command.Command):
    """Have housekeeping upload to amphorae now.

    Without arguments, to those whose last attempt failed and which wait for
    the next. With --amphora or --all once more to these, whatever they have:
    for example after a change of [amphora_agent] options.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument('--amphora', metavar='<id>', nargs='+',
                           default=[], help='these amphorae')
        which.add_argument('--all', action='store_true',
                           help='all amphorae that have an agent')
        parser.add_argument('--dry-run', action='store_true',
                            help='only tell how many there are')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rows = {row.id: row for row in amphora_repo.get_rows(engine)}
        unknown = sorted(set(parsed_args.amphora) - set(rows))
        if unknown:
            raise exceptions.NotPossible(
                f'No amphora {", ".join(unknown)} has an agent: see '
                f'"octavia-hmsync amphora list".')
        again = list(rows) if parsed_args.all else parsed_args.amphora
        if parsed_args.dry_run:
            number = len(again) if again or parsed_args.all else sum(
                row.next_attempt_at is not None for row in rows.values())
            self.app.stdout.write(f'{number} amphorae would be uploaded to.\n')
            return
        amphora_repo.add_missing(engine)
        if again or parsed_args.all:
            number = claim_repo.upload_again(engine, again)
        else:
            number = claim_repo.retry_now(engine)
        self.app.stdout.write(
            f'{number} amphorae are uploaded to within some seconds; see '
            f'"octavia-hmsync sync status".\n')


class Retry(base.DatabaseMixin, command.Command):
    """Give addresses that a roll back left out another chance.

    To be run when amphorae can reach them. A few amphorae try them first.
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        suspects = generation_repo.clear_suspects(engine)
        if suspects:
            text = (f'Another chance for '
                    f'{addr.join_list(addr.canonical(suspects))}.')
        else:
            text = 'No address is left out.'
        self.app.stdout.write(f'{text}\n')

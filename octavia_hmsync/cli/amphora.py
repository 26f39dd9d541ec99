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

"""octavia-hmsync amphora list."""

from cliff import lister

from octavia_hmsync.cli import base
from octavia_hmsync.db.repositories import amphora as amphora_repo


class ListAmphorae(base.DatabaseMixin, lister.Lister):
    """List the amphorae, and what each one's agent has acknowledged.

    An amphora without a generation has not been reached yet.
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rows = [
            (row.id, row.lb_network_ip, row.generation, row.result,
             base.format_time(row.applied_at), row.attempts or 0, row.error)
            for row in amphora_repo.get_rows(engine)]
        return (('id', 'lb_network_ip', 'generation', 'result', 'applied_at',
                 'attempts', 'error'), rows)

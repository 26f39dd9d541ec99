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

"""octavia-hmsync sync status."""


from octavia_hmsync.cli import base
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.membership import addresses as addr


class ShowStatus(base.DatabaseMixin, base.ShowOne):
    """Show the newest published list and how far the amphorae are with it.

    due counts the amphorae that are not at the newest generation, whatever
    the reason; the results are those of the last attempt at each amphora.
    """

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        newest = generation_repo.get_newest(engine)
        counts = amphora_repo.count(engine, newest.number if newest else 0)
        return (('generation', 'controller_ip_port_list', 'amphorae', 'due',
                 'applied', 'unreachable', 'rejected', 'unsupported'),
                (newest.number if newest else None,
                 addr.join_list(newest.addresses) if newest else '',
                 counts.amphorae, counts.due,
                 *(counts.results.get(result, 0)
                   for result in amphora_repo.RESULTS)))

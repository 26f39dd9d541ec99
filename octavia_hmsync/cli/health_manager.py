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

"""octavia-hmsync health manager list."""

from cliff import lister

from octavia_hmsync.cli import base
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.membership import member as mem


class ListHealthManagers(base.DatabaseMixin, lister.Lister):
    """List the health managers that have registered.

    A health manager is ONLINE while its keepalives come; one that has been
    silent for longer than offline_after is shown as OFFLINE.
    """

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        rows = [
            (row.host, row.ip_address, row.port, mem.effective_status(
                row.status, (row.now - row.keepalive_at).total_seconds(),
                conf.hmsync.offline_after),
             base.format_time(row.keepalive_at))
            for row in hm_repo.get_rows(engine)]
        return (('host', 'ip_address', 'port', 'status', 'keepalive_at'),
                rows)

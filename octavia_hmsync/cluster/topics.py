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

"""What octavia-api casts to the octavia-workers that serve clusters.

All else that is done with a cluster goes where Octavia sends it: to the topic
of Octavia's own workers. The arguments of each method are here as a signature,
so that both ends, of two releases maybe, agree on them.
"""

import inspect

TOPIC = 'octavia-hmsync-cluster'
NAMESPACE = None
VERSION = '1.0'

CREATE = 'create_load_balancer'
DELETE = 'delete_load_balancer'
FAILOVER = 'failover_load_balancer'


def _create(load_balancer_id, flavor, availability_zone):
    pass


def _delete(load_balancer_id, cascade):
    pass


def _failover(load_balancer_id):
    pass


# flavor: a dict, what Octavia has of the load balancer's flavor, and always
# all that flavor.OWN_KEYS names, as octavia-api has decided.
# availability_zone: a dict, maybe empty. cascade: whether listeners and pools
# go with it.
SIGNATURES = {CREATE: inspect.signature(_create),
              DELETE: inspect.signature(_delete),
              FAILOVER: inspect.signature(_failover)}

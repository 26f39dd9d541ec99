# SPDX-License-Identifier: Apache-2.0

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

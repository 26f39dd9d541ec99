# SPDX-License-Identifier: Apache-2.0

"""What octavia-api casts to the octavia-workers that serve clusters.

All other requests for a cluster go to the topic of Octavia's own workers. The
signatures of the methods are here, so that both ends agree on them, even in
two releases.
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


# flavor: a dict: the flavor of the load balancer, with the sizes and the
# affinity that octavia-api has chosen (sizes.KEYS).
# availability_zone: a dict, maybe empty. cascade: whether listeners and pools
# are deleted, too.
SIGNATURES = {CREATE: inspect.signature(_create),
              DELETE: inspect.signature(_delete),
              FAILOVER: inspect.signature(_failover)}

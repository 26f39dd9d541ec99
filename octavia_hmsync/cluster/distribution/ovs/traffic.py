# SPDX-License-Identifier: Apache-2.0

"""Packets and bytes that distributors have sent to members.

Only Open vSwitch counts them; OVN does not.
"""

from concurrent import futures

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

_AT_ONCE = 16


def ask(conf, engine):
    """Ask all distributors, active or not.

    :returns: {name of a distributor: {(id of a cluster, id of an amphora):
              (packets, bytes)}}, since it was told of the member; without
              distributors that do not answer.
    """
    if backends.is_ovn(conf):
        return {}

    def count(row):
        try:
            return row.name, distributors.make_client(
                conf, row.url).get_traffic()
        except (exceptions.DistributorError,
                exceptions.InvalidConfiguration) as e:
            LOG.info('What the distributor %s sends to members is not '
                     'shown: %s', row.name, e)
            return None

    with futures.ThreadPoolExecutor(_AT_ONCE) as executor:
        return dict(filter(None, executor.map(
            count, distributor_repo.get_all(engine))))

# SPDX-License-Identifier: Apache-2.0

"""Whether clusters work in this cloud, as far as octavia-api knows."""

from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions

AMPHORA_DRIVER = 'hmsync'
# It needs to be told where its distributors are.
OVS_DRIVER = backends.OVS_DRIVER
OVN_DRIVER = backends.OVN_DRIVER
PROVIDER = 'amphora_cluster'


def is_enabled(conf):
    """Tell whether tenants may have clusters."""
    return PROVIDER in conf.api_settings.enabled_provider_drivers


def get_defaults(conf):
    group = conf[cluster_conf.GROUP]
    return sizes.Defaults(
        desired_size=group.desired_size, min_size=group.min_size,
        size_limit=group.size_limit, affinity=group.affinity)


def find_misconfiguration(conf):
    """Return why no cluster can work with these options.

    :returns: a line that names the option and what to do, or None.
    """
    try:
        groups.check(conf, cluster_conf)
    except exceptions.InvalidConfiguration as e:
        return str(e)
    worker = conf.controller_worker
    if worker.amphora_driver != AMPHORA_DRIVER:
        return (f'[controller_worker] amphora_driver is '
                f'{worker.amphora_driver}, which configures the amphorae of '
                f'a cluster one after the other: set it to '
                f'{AMPHORA_DRIVER}, which is Octavia\'s own for all other '
                f'load balancers, in octavia.conf of all controllers.')
    problem = backends.find_problem(conf)
    if problem:
        return problem
    if (worker.distributor_driver == OVS_DRIVER and
            not conf[cluster_conf.GROUP].distributors and
            not conf[cluster_conf.GROUP].distributor_instances):
        return (f'[{cluster_conf.GROUP}] distributors is empty: name the '
                f'distributors there, or set distributor_instances, in '
                f'octavia.conf of all controllers.')
    return None


def find_missing_tables(connection):
    """Return why no cluster can be recorded.

    :returns: a line that says what to do, or None.
    """
    try:
        schema.check(connection)
    except exceptions.SchemaNewer:
        # Migrations only add.
        return None
    except exceptions.SchemaMissing as e:
        return str(e)
    return None

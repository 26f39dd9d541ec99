# SPDX-License-Identifier: Apache-2.0

"""Which tests run where."""

import collections
import contextlib

from tests.tempest import clouds
from tests.tempest import suite
from tests.tempest import web_servers

Run = collections.namedtuple('Run', 'kind provider traffic list')
RUNS = {
    'smoke-cluster': Run(clouds.Cluster, 'amphora_cluster', False, 'smoke'),
    'smoke': Run(clouds.Cluster, 'amphora', False, 'smoke'),
    'cluster': Run(clouds.Cluster, 'amphora_cluster', False, 'api'),
    'amphora': Run(clouds.Cluster, 'amphora', False, 'amphora'),
    'traffic-cluster': Run(clouds.Cluster, 'amphora_cluster', True,
                           'traffic'),
    'traffic': Run(clouds.Cluster, 'amphora', True, 'traffic'),
    'noop': Run(clouds.Noop, 'amphora', False, 'noop'),
}


def read_list(name):
    """Return the regular expressions of a list."""
    path = suite.HERE / 'lists' / f'{name}.txt'
    return [line for line in path.read_text().splitlines()
            if line and not line.startswith('#')]


def run(cloud, run, log_directory):
    """Run a list of tests; returns a list of suite.Results."""
    with contextlib.ExitStack() as stack:
        servers = None
        if run.traffic:
            servers = stack.enter_context(web_servers.WebServers(cloud))
            cloud.add_outside(servers.port)
        each = stack.enter_context(suite.Suite(
            cloud, run.provider, log_directory, servers))
        return each.run(read_list(run.list),
                        concurrency=1 if run.traffic else 2)

# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync-cluster-manager: looks after clusters, and nothing else.

With octavia.conf, as octavia-housekeeping has it, on any controllers; where
it runs, ``[hmsync_cluster] keep_in_housekeeping = False`` has octavia-
housekeeping leave clusters alone.
"""

import signal
import sys
import threading

from oslo_config import cfg
from oslo_log import log as logging

from octavia_hmsync.cluster.keeping import threads as cluster_threads
from octavia_hmsync import compat
from octavia_hmsync.compat import service
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.services import lifecycle
from octavia_hmsync.sync import controller_list

LOG = logging.getLogger(__name__)

PROG = 'octavia-hmsync-cluster-manager'
_USAGE = 2
# Seconds for what is begun to come to where another process can go on.
_PATIENCE = 10
# Seconds after which a signal is heard at the latest.
_LATEST = 1


class Process:
    """Runs until told to end; making it may raise DatabaseUnavailable."""

    def __init__(self, conf):
        # What amphorae boot with, as in the services that build them.
        self._live = controller_list.LiveControllerList(conf)
        self._clusters = cluster_threads.ClusterThreads(
            conf, api.create_engine(conf))
        self.ending = threading.Event()

    def run(self):
        """Look after clusters until ``ending`` is set."""
        lifecycle.keep_management_ports()
        self._live.start()
        threads = self._clusters.threads
        for thread in threads:
            thread.start()
        LOG.info('Looking after clusters of amphorae')
        # Linux may give a signal to another thread, one of a library's, which
        # does not wake this one; but only this one runs its handler.
        while not self.ending.wait(_LATEST):
            pass
        for thread in threads:
            thread.stop(timeout=_PATIENCE)
        self._clusters.stop(timeout=_PATIENCE)
        self._live.stop()
        LOG.info('Ended')


def _read_anew(conf):
    try:
        conf.mutate_config_files()
    except (cfg.Error, ValueError) as e:
        LOG.error('octavia.conf cannot be read anew, and what it had before '
                  'goes on: %s', ' '.join(str(e).split()))


def main() -> int:
    """Look after clusters; return 2 if the configuration forbids to begin."""
    try:
        service.prepare(PROG, sys.argv[1:])
        conf = compat.CONF
        groups.register(conf)
        groups.check(conf)
        process = Process(conf)
    except exceptions.HMSyncException as e:
        print(f'{PROG}: {e}', file=sys.stderr)
        return _USAGE
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.ending.set())
    signal.signal(signal.SIGHUP, lambda *_: _read_anew(conf))
    process.run()
    return 0


if __name__ == '__main__':
    sys.exit(main())

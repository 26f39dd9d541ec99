# SPDX-License-Identifier: Apache-2.0

"""Serves RPC for clusters, in each child of octavia-worker.

Octavia's service starts its own server after the fork, and stops it in
terminate(), after which the process ends without any other hook. What its
consumer logs there is the only sign that the process ends.
"""

import logging as std_logging
import threading

from oslo_log import log as logging

from octavia_hmsync.cluster.api import topics
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync.compat import cluster as compat_cluster

LOG = logging.getLogger(__name__)

CONSUMER = 'octavia.controller.queue.v2.consumer'
_STOPPING = 'Stopping V2 consumer'
_ENDING = 'Shutting down V2 endpoint worker'


class Endpoints:
    """The RPC methods for octavia-api: create, delete and replace.

    Messages are acknowledged first: what is lost with a dead worker,
    housekeeping finds in the database.
    """

    target = compat_cluster.make_target(topics.NAMESPACE, topics.VERSION)

    def __init__(self, conf):
        self._worker = worker.Worker(conf)
        compat_cluster.take_amphora_failovers(self._worker.failover_amphora)

    def create_load_balancer(self, context, load_balancer_id, flavor,
                             availability_zone):
        """Build a load balancer; its row exists, or will soon."""
        LOG.info('Creating load balancer %s on a cluster.', load_balancer_id)
        self._worker.create(load_balancer_id, flavor)

    def delete_load_balancer(self, context, load_balancer_id, cascade):
        """Delete a load balancer with all that belongs to it.

        Without ``cascade`` octavia-api has checked that it has no children.
        """
        LOG.info('Deleting load balancer %s and its cluster.',
                 load_balancer_id)
        self._worker.delete(load_balancer_id)

    def failover_load_balancer(self, context, load_balancer_id):
        """Replace each amphora of a load balancer, one after the other."""
        LOG.info('Replacing the amphorae of load balancer %s.',
                 load_balancer_id)
        self._worker.failover(load_balancer_id)


class WorkerExtension:
    """The part of the plugin that serves clusters in octavia-worker.

    :param get_pinned: not used; all extensions get it.
    """

    def __init__(self, conf, get_pinned=None):
        self._server = RPCServer(conf)

    def start(self):
        """Begin to serve, in a thread."""
        self._server.start()

    def stop(self):
        """Take no new calls, and wait for running ones."""
        self._server.stop()
        self._server.wait()


class RPCServer:
    """The server, in a thread of its own until it serves.

    While RabbitMQ is down it waits there, and the worker goes on.

    :param make_server: takes a topic and an endpoint, and returns a server of
                        oslo.messaging; None for one on Octavia's connection.
    :param make_endpoint: takes the configuration.
    """

    def __init__(self, conf, make_server=None,
                 make_endpoint=Endpoints):
        self._conf = conf
        self._make_server = make_server
        self._make_endpoint = make_endpoint
        self._server = None
        self._lock = threading.Lock()
        self._is_stopping = False

    def start(self):
        """Serve as soon as RabbitMQ answers."""
        _follow_consumer(self)
        threading.Thread(target=self._serve, name='hmsync-cluster-rpc',
                         daemon=True).start()

    def stop(self):
        """Take no new calls; running ones go on. It may be repeated."""
        with self._lock:
            self._is_stopping = True
            server = self._server
        if server is not None:
            server.stop()

    def wait(self):
        """Wait until running calls have ended; after stop()."""
        with self._lock:
            server = self._server
        if server is not None:
            server.wait()

    def _serve(self):
        try:
            make_server = self._make_server
            if make_server is None:
                # Imported late: Octavia's worker does not exist before.
                from octavia_hmsync.compat import cluster as compat_cluster
                make_server = compat_cluster.make_server
            server = make_server(topics.TOPIC, self._make_endpoint(self._conf))
            server.start()
        except Exception:
            LOG.exception('octavia-hmsync: this octavia-worker takes no '
                          'orders for clusters; restart it once the reason '
                          'is gone:')
            return
        with self._lock:
            self._server = server
            is_late = self._is_stopping
        if is_late:
            server.stop()
        else:
            LOG.info('Orders for clusters are taken at the topic %s.',
                     topics.TOPIC)


def _follow_consumer(server):
    logger = std_logging.getLogger(CONSUMER)
    logger.addFilter(_Filter(server, logger.getEffectiveLevel()))
    # A filter does not see records below the level of the logger.
    if not logger.isEnabledFor(std_logging.INFO):
        logger.setLevel(std_logging.INFO)


class _Filter(std_logging.Filter):
    """Stops a server when Octavia stops its own.

    :param level: lower records are not logged.
    """

    def __init__(self, server, level):
        super().__init__()
        self._server = server
        self._level = level

    def filter(self, record):
        text = str(record.msg)
        if text.startswith(_STOPPING):
            self._server.stop()
        elif text.startswith(_ENDING):
            self._server.wait()
        return record.levelno >= self._level

# SPDX-License-Identifier: Apache-2.0

"""Asks octavia-workers by RPC, like octavia-api."""

from octavia.common import constants
from octavia.common import rpc
import oslo_messaging

# Raised if no queue takes a message, now or later.
Undeliverable = oslo_messaging.MessageUndeliverable

# A topic without any listener.
_NOBODY = 'octavia-hmsync-nobody'
# How often connect() tries another of several message brokers.
_TRIES = 4


class Workers:
    """The octavia-workers.

    It has its own connections. An idle connection may turn out to be broken
    during a call, and then it is unknown whether the message has arrived.
    """

    def __init__(self):
        self._transport = rpc.create_transport(rpc.get_transport_url())
        self._client = oslo_messaging.get_rpc_client(
            self._transport, oslo_messaging.Target(
                namespace=constants.RPC_NAMESPACE_CONTROLLER_AGENT,
                topic=constants.TOPIC_AMPHORA_V2, version='2.0',
                fanout=False))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close the connection; doing it twice is harmless."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.cleanup()

    def connect(self):
        """Connect to the message broker; errors of the library are raised.

        :raises Exception: any error of the messaging library.
        """
        # The library has no other call that tests the connection.
        self._client.prepare(topic=_NOBODY, retry=_TRIES).cast({}, 'connect')

    def ask_for_failover(self, amphora_id):
        """Ask a worker to fail an amphora over, without an answer.

        The caller locks the load balancer, and the worker unlocks it.

        :raises Undeliverable: if there is no worker's queue.
        :raises Exception: any error of the messaging library; it is then
                           unknown whether the message has arrived.
        """
        # A second try could send a second message.
        self._client.prepare(
            retry=0, transport_options=oslo_messaging.TransportOptions(
                at_least_once=True)).cast(
                    {}, 'failover_amphora', amphora_id=amphora_id)

# SPDX-License-Identifier: Apache-2.0

"""What octavia-workers are asked for by RPC, as octavia-api does."""

from octavia.common import constants
from octavia.common import rpc
import oslo_messaging

# What is raised where nobody has the message, nor ever will.
Undeliverable = oslo_messaging.MessageUndeliverable

# Nobody listens there.
_NOBODY = 'octavia-hmsync-nobody'
# So often another one of several servers is tried.
_TRIES = 4


class Workers:
    """The octavia-workers.

    It has connections of its own: one that has been idle may turn out to be
    broken while it is used, when nobody can tell whether a message has
    arrived.
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
        """Have no connection any more; doing it twice is harmless."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.cleanup()

    def connect(self):
        """Be connected to whoever takes the messages.

        :raises Exception: any of the messaging library, if that cannot be.
        """
        # No other call of the library's tells.
        self._client.prepare(topic=_NOBODY, retry=_TRIES).cast({}, 'connect')

    def ask_for_failover(self, amphora_id):
        """Have one of them fail an amphora over; it does not answer.

        Its load balancer has to be locked, and the worker gives it back.

        :raises Undeliverable: if there is none to whom it could be given.
        :raises Exception: any of the messaging library; whether the message
                           has arrived nobody can tell then.
        """
        # A second try might be a second message.
        self._client.prepare(
            retry=0, transport_options=oslo_messaging.TransportOptions(
                at_least_once=True)).cast(
                    {}, 'failover_amphora', amphora_id=amphora_id)

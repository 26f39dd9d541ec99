# SPDX-License-Identifier: Apache-2.0

"""The agent of an amphora image from before the fix of LP 2121691.

That fix is Octavia's change 69af193d0. Older agents take a configuration,
write it, and answer 202, but go on sending heartbeats to the addresses that
they had at their start.

Run as a script, in place of amphora-agent and with its arguments.
"""

import queue
import sys

from octavia.amphorae.backends.agent.api_server import server
from octavia.cmd import agent


class OldServer(server.Server):

    # All that the fix added is the queue on which the server tells the
    # process that sends heartbeats to read its configuration again. On this
    # one nobody hears it.
    def __init__(self, hm_queue):
        super().__init__(queue.Queue())


if __name__ == '__main__':
    server.Server = OldServer
    sys.exit(agent.main())

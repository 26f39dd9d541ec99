# SPDX-License-Identifier: Apache-2.0

"""Sends the heartbeats of all amphorae, from one task."""

import asyncio
import functools
import heapq
import socket
import time

from octavia.amphorae.backends.health_daemon import health_daemon
from octavia.amphorae.backends.health_daemon import status_message

from tests.fleet import amphora as fleet_amphora

# Heartbeats that are due within this time go out together: to wake up for
# each costs more than to send it.
TICK = 0.01


@functools.lru_cache(maxsize=1024)
def destinations(controller_ip_port_list):
    """What the sender makes of a list, as it does in health_sender.py.

    A malformed entry drops itself and those after it.

    :returns: list of (family, socket address); empty also where an entry is
              no address: the sender then never gets as far as sending. (The
              real one would ask the name service.)
    """
    found = []
    for entry in controller_ip_port_list:
        try:
            host, port = entry.rsplit(':', 1)
        except ValueError:
            break
        if host[:1] == '[' and host[-1:] == ']':
            host = host[1:-1]
        try:
            info = socket.getaddrinfo(host, port, 0, socket.SOCK_DGRAM,
                                      flags=socket.AI_NUMERICHOST)[0]
        except OSError:
            return []
        found.append((info[0], info[4]))
    return found


class Sender:
    """Sends the heartbeats of the amphorae, evenly spread over the interval.

    .heartbeats counts them; .last_adoption is when an amphora last sent its
    first heartbeat by a configuration uploaded to it.
    """

    def __init__(self, amphorae):
        self._amphorae = amphorae
        # As with real ones on this machine, the source address tells
        # nothing: health managers only log it.
        self._sockets = {family: socket.socket(family, socket.SOCK_DGRAM)
                         for family in (socket.AF_INET, socket.AF_INET6)}
        self.reset()

    def reset(self):
        """Count from zero again."""
        self.heartbeats = 0
        self.last_adoption = None

    async def run(self):
        """Send heartbeats until no amphora has a sender left."""
        start = time.monotonic()
        due = [(start + amphora.running.heartbeat_interval * number /
                len(self._amphorae), number, amphora)
               for number, amphora in enumerate(self._amphorae)]
        heapq.heapify(due)
        while due:
            now = time.monotonic()
            while due and due[0][0] <= now:
                when, number, amphora = heapq.heappop(due)
                self._beat(amphora)
                interval = amphora.running.heartbeat_interval
                if interval is None:
                    continue
                # One that is late keeps its phase, unless by a whole turn.
                when += interval
                if when <= now:
                    when = now + max(TICK, interval)
                heapq.heappush(due, (when, number, amphora))
            if due:
                await asyncio.sleep(max(TICK, due[0][0] - time.monotonic()))

    def _beat(self, amphora):
        # The order is that of the agent's run_sender(): it first sends by
        # the old configuration, then reads the new one.
        message = self._message(amphora)
        if amphora.ailment != fleet_amphora.MUTE:
            self._send(amphora, message)
        amphora.reload()

    @staticmethod
    def _message(amphora):
        listeners = {}
        if amphora.listener_id:
            listeners[amphora.listener_id] = {
                'status': 'OPEN', 'stats': {
                    'tx': 0, 'rx': 0, 'conns': 0, 'totconns': 0, 'ereq': 0}}
        message = {'id': amphora.running.amphora_id, 'seq': amphora.sequence,
                   'listeners': listeners, 'pools': {},
                   'ver': health_daemon.MSG_VER}
        amphora.sequence += 1
        return message

    def _send(self, amphora, message):
        addresses = destinations(amphora.running.controller_ip_port_list)
        if not addresses:
            return
        family, address = addresses[amphora.turn % len(addresses)]
        amphora.turn += 1
        envelope = status_message.wrap_envelope(
            message, str(amphora.running.heartbeat_key))
        try:
            self._sockets[family].sendto(envelope, address)
        except OSError:
            # The agent lets it pass, too; it is that address's turn.
            return
        self.heartbeats += 1
        now = time.time()
        if amphora.prove(now):
            self.last_adoption = now

# SPDX-License-Identifier: Apache-2.0

"""The control socket, through which a benchmark watches and steers."""

import asyncio
import json
import time


class Control:
    """Answers requests; see the package for what they are.

    :param amphorae: {id: Amphora}.
    :param server: an agent.Server.
    :param sender: a heartbeats.Sender.
    """

    def __init__(self, amphorae, server, sender):
        self._amphorae = amphorae
        self._server = server
        self._sender = sender

    async def serve(self, path):
        """Make the socket, and answer until cancelled."""
        # A line may name every amphora.
        server = await asyncio.start_unix_server(self._answer_all, path,
                                                 limit=1 << 24)
        async with server:
            await server.serve_forever()

    async def _answer_all(self, reader, writer):
        while line := await reader.readline():
            writer.write(json.dumps(self._answer(line)).encode() + b'\n')
            await writer.drain()
        writer.close()

    def _answer(self, line):
        try:
            request = json.loads(line)
            operation = {'state': self._state, 'amphorae': self._list,
                         'set': self._set, 'reset': self._reset}[
                             request.pop('op')]
            return operation(**request)
        except Exception as e:
            # Whatever is wrong with it, the asker is to know.
            return {'error': f'{type(e).__name__}: {e}'}

    def _state(self):
        server, sender = self._server, self._sender
        return {
            'amphorae': len(self._amphorae),
            'time': time.time(),
            'connections': server.connections,
            'in_flight': server.in_flight,
            'max_in_flight': server.max_in_flight,
            'uploads': server.uploads,
            'first_upload': server.first_upload,
            'last_upload': server.last_upload,
            'aborted': server.aborted,
            'answers': server.answers,
            'adopted': sum(amphora.adopted_at is not None
                           for amphora in self._amphorae.values()),
            'last_adoption': sender.last_adoption,
            'heartbeats': sender.heartbeats,
            'cpu_seconds': time.process_time(),
        }

    def _list(self):
        return {amphora.id: [amphora.uploads, amphora.last_upload,
                             amphora.running.controller_ip_port_list,
                             amphora.adopted_at, amphora.aborted]
                for amphora in self._amphorae.values()}

    def _set(self, ids, ailment):
        for amphora in [self._amphorae[amphora_id] for amphora_id in ids]:
            amphora.ail(ailment)
            self._server.open(amphora)
        return {}

    def _reset(self):
        self._server.reset()
        self._sender.reset()
        for amphora in self._amphorae.values():
            amphora.reset()
        return {}

# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What is made of the requests of a client."""

import asyncio
import contextlib
import io
import socket

from tests.cloud import network
from tests.cloud import probe
from tests.unit import base


def requests(*errors, interval=1, duration=0.1):
    """Requests one after the other; '' is a good one."""
    return [probe.Request(False, number * interval, duration, error)
            for number, error in enumerate(errors)]


class TestReport(base.TestCase):

    def dark(self, *errors):
        return probe.report(requests(*errors)).dark

    def test_all_is_well(self):
        self.assertEqual(probe.Report(3, 0, 0, 0, ()),
                         probe.report(requests('', '', '')))

    def test_dark(self):
        # Until the next good one begins.
        self.assertEqual(1, self.dark('', 'reset', ''))
        self.assertEqual(2, self.dark('', 'reset', 'reset', '', ''))
        self.assertEqual(2, self.dark('reset', '', 'refused', ''))

    def test_dark_to_the_end(self):
        self.assertEqual(1.1, self.dark('', 'reset', 'reset'))

    def test_errors(self):
        report = probe.report(requests('', 'reset', 'refused', 'reset'))
        self.assertEqual((4, 3), (report.requests, report.failed))
        self.assertEqual(('00:00:01.000000 reset (0.100 s)',
                          '00:00:02.000000 refused (0.100 s)',
                          '00:00:03.000000 reset (0.100 s)'), report.errors)
        report = probe.report(requests(*30 * ['reset']))
        self.assertEqual((30, 20), (report.failed, len(report.errors)))

    def test_kept_ones_are_counted_apart(self):
        kept = probe.Request(True, 0.5, 0.1, 'reset')
        report = probe.report(requests('', '') + [kept])
        self.assertEqual((2, 0, 0, 1), (report.requests, report.failed,
                                        report.dark, report.broken))
        self.assertEqual(('00:00:00.500000 kept: reset (0.100 s)',),
                         report.errors)

    def test_read(self):
        text = ('new 2.0000 0.0100 ok\n'
                'kept 1.0000 0.0200 ConnectionResetError: [Errno 104] reset\n')
        self.assertEqual(
            [probe.Request(True, 1, 0.02,
                           'ConnectionResetError: [Errno 104] reset'),
             probe.Request(False, 2, 0.01, '')], probe.read(text))
        self.assertEqual([], probe.read(''))


class TestHeld(base.TestCase):

    def test_report(self):
        held = probe.report_held(probe.read(
            'held-1001 1.0 0.5 ok\nheld-1002 1.0 9.0 ok\n'
            'held-1002 2.0 0.1 EOFError: closed\nheld-0 1.0 0 timed out\n'))
        self.assertEqual(probe.Held(
            frozenset({1001, 1002}), {1002: 'EOFError: closed'},
            ('timed out',), 0.5), held)
        self.assertEqual({1001}, held.alive)
        self.assertEqual(probe.Held(frozenset(), {}, (), 0),
                         probe.report_held([]))

    def test_timeouts(self):
        """Where, as a connection is made, or once it is there."""
        async def ask(client):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.run(10), 0.35)

        with socket.create_server(('127.0.0.1', 0), backlog=0) as server:
            client = probe._Client(
                f'http://127.0.0.1:{server.getsockname()[1]}/', 0.1)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                asyncio.run(ask(client))
        errors = {request.error for request in probe.read(out.getvalue())}
        self.assertEqual({'timed out', 'timed out connecting'}, errors)

    def test_connections(self):
        asked, first = [], network.free_port()

        async def serve(reader, writer):
            number = len(asked)
            asked.append(0)
            while await reader.readline():
                await reader.readuntil(b'\r\n\r\n')
                asked[number] += 1
                if (number, asked[number]) == (1, 2):
                    break
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n'
                             b'ok')
            writer.close()

        async def hold():
            async with await asyncio.start_server(serve, '127.0.0.1') as each:
                port = each.sockets[0].getsockname()[1]
                client = probe._Client(f'http://127.0.0.1:{port}/', 5)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(client.hold(10, 3, first), 0.6)

        with contextlib.redirect_stdout(io.StringIO()) as out:
            asyncio.run(hold())
        held = probe.report_held(probe.read(out.getvalue()))
        self.assertEqual({first, first + 1, first + 2}, held.opened)
        self.assertEqual(['EOFError: closed'], list(held.broken.values()))
        self.assertEqual(2, len(held.alive))
        # Each is used again and again.
        self.assertGreater(min(asked[0], asked[2]), 2)

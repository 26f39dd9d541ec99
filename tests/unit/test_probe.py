# SPDX-License-Identifier: Apache-2.0

"""What is made of the requests of a client."""

import asyncio
import contextlib
import io
import json
import socket
import ssl
import sys

import fixtures

from tests.cloud import certificates
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


class TestHow(base.TestCase):
    """What a client of its own kind has, and expects."""

    def ask(self, scheme, serve, **how):
        """Use a server of 127.0.0.1 until it has answered some times.

        :returns: (errors, how many good ones).
        """
        async def run():
            async with await serve('127.0.0.1') as server:
                port = server.sockets[0].getsockname()[1]
                child = await asyncio.create_subprocess_exec(
                    sys.executable, '-ISu', probe.__file__,
                    f'{scheme}://127.0.0.1:{port}/session', '50', '60',
                    '--how', json.dumps(how), stdout=asyncio.subprocess.PIPE)
                lines = []
                while sum(line.startswith('new ') for line in lines) < 6:
                    line = await child.stdout.readline()
                    if not line:
                        break
                    lines.append(line.decode())
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
                return ''.join(lines)

        new = [request for request in probe.read(asyncio.run(run()))
               if not request.kept]
        self.assertEqual(6, len(new))
        return ({request.error for request in new if request.error},
                sum(not request.error for request in new))

    def serve(self, answers, tls=None):
        """Serve with what is told of each; keeps what it was asked."""
        self.asked = []

        async def answer(reader, writer):
            with contextlib.suppress(asyncio.IncompleteReadError):
                while asked := await reader.readuntil(b'\r\n\r\n'):
                    self.asked.append(asked.decode())
                    writer.write(answers[min(len(self.asked), len(answers)) -
                                         1].encode())
            writer.close()

        return lambda host: asyncio.start_server(answer, host, ssl=tls)

    def test_redirected(self):
        answer = ('HTTP/1.1 302 Found\r\nContent-Length: 0\r\n'
                  'Location: https://a.example/\r\n\r\n')
        how = {'status': 302, 'location': 'https://a.example/'}
        errors, good = self.ask('http', self.serve([answer]), **how)
        self.assertEqual(set(), errors)
        self.assertGreater(good, 1)
        errors, good = self.ask('http', self.serve([answer]))
        self.assertEqual(({'ValueError: HTTP/1.1 302 Found'}, 0),
                         (errors, good))
        errors, good = self.ask('http', self.serve([answer]), status=302)
        self.assertEqual(
            ({'ValueError: redirected to https://a.example/'}, 0),
            (errors, good))

    def test_faithful(self):
        """The first answer is the right one, whichever it was."""
        def say(text, cookie=''):
            return (f'HTTP/1.1 200 OK\r\n{cookie}Content-Length: 2\r\n\r\n'
                    f'{text}')
        serve = self.serve([say('m1', 'Set-Cookie: session=1; path=/\r\n'),
                            say('m1'), say('m1'), say('m2')])
        errors, good = self.ask('http', serve, is_faithful=True,
                                keeps_cookies=True)
        self.assertEqual({"ValueError: answer 'm2'"}, errors)
        self.assertLessEqual(1, good)
        self.assertNotIn('Cookie', self.asked[0])
        self.assertEqual([1] * (len(self.asked) - 1), [
            asked.count('Cookie: session=1\r\n')
            for asked in self.asked[1:]])
        errors, _good = self.ask('http', serve, answers=['m1'])
        self.assertEqual({"ValueError: answer 'm2'"}, errors)

    def test_tls(self):
        certs = self.useFixture(certificates.Certificates(
            self.useFixture(fixtures.TempDir()).path))
        tls = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH,
            cafile=certs.client_authority.certificate_path)
        tls.load_cert_chain(certs.server_path('a.example'))
        tls.verify_mode = ssl.CERT_REQUIRED
        answer = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
        how = {'authority': certs.server_authority.certificate_path,
               'certificate': certs.client_path}
        errors, good = self.ask('https', self.serve([answer], tls),
                                host='a.example', **how)
        self.assertEqual(set(), errors)
        self.assertGreater(good, 1)
        self.assertIn('Host: a.example\r\n', self.asked[0])
        # Another name, and none that the server knows the client by.
        errors, good = self.ask('https', self.serve([answer], tls),
                                host='b.example', **how)
        self.assertEqual(0, good)
        self.assertIn('SSLCertVerificationError', str(errors))
        errors, good = self.ask('https', self.serve([answer], tls),
                                host='a.example',
                                authority=how['authority'])
        self.assertEqual((True, 0), (bool(errors), good))

    def test_datagrams(self):
        async def serve(host):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(
                _Echo, local_addr=(host, 0))
            return _Served(transport)

        errors, good = self.ask('udp', serve, answers=['?'])
        self.assertEqual(set(), errors)
        self.assertGreater(good, 1)

    def test_datagrams_of_a_port(self):
        """It is broken when another one answers, or none."""
        self.assertEqual({'ValueError: b in place of a'},
                         self.hold_datagrams(b'a', b'a', b'b'))
        self.assertEqual({'ValueError: no answer of a'},
                         self.hold_datagrams(b'a'))

    def hold_datagrams(self, *answers):
        async def hold():
            transport, _ = await (
                asyncio.get_running_loop().create_datagram_endpoint(
                    lambda: _Answers(answers), local_addr=('127.0.0.1', 0)))
            port = transport.get_extra_info('sockname')[1]
            await probe._Client(f'udp://127.0.0.1:{port}/', 2).hold(100, 1)
            transport.close()

        with contextlib.redirect_stdout(io.StringIO()) as out:
            asyncio.run(hold())
        return set(probe.report_held(probe.read(
            out.getvalue())).broken.values())


class _Answers(asyncio.DatagramProtocol):
    """Answers so many, each with the next one, and no more."""

    def __init__(self, answers):
        self._answers = list(answers)

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        if self._answers:
            self.transport.sendto(self._answers.pop(0), addr)


class _Echo(asyncio.DatagramProtocol):

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)


class _Served:
    """As a server of asyncio."""

    def __init__(self, transport):
        self.transport = transport
        self.sockets = [transport.get_extra_info('socket')]

    async def __aenter__(self):
        return self

    async def __aexit__(self, *args):
        self.transport.close()

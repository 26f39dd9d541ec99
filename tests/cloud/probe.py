# SPDX-License-Identifier: Apache-2.0

"""What a client of a load balancer sees: failed requests and dark time.

A script as well: it runs in the namespace of the client.

    probe.py URL RATE TIMEOUT [NUMBER [FIRST]] [--how JSON]

asks for URL as often, by a new connection each time, and over one connection
that it keeps; with udp:// by a datagram each. Prints a line for each request:
how (new or kept), when it began, in seconds, its time, and its error or "ok".
--how has what a client has and expects, see _Client.

With NUMBER, it opens as many connections instead, and asks as often over each
of them, until it breaks; the first word of a line is then "held-" and the
connection's own port. These begin with FIRST. With udp:// each has a port that
it keeps, sends again each second, and breaks when another one answers than
did first.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import datetime
import json
import ssl
import sys
import time
import urllib.parse

# Of errors.
_TOLD = 20


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to a load balancer; times are in seconds.

    :param kept: whether over a connection that is to be kept.
    :param port: the client's, where there are many of these.
    """

    kept: bool
    began: float
    duration: float
    error: str
    port: int = None


@dataclasses.dataclass(frozen=True)
class Report:
    """What a client saw.

    :param requests: those with a connection each.
    :param failed: those of them without a right answer in time.
    :param dark: seconds without service: from the begin of the first of
                 failed requests in a row to the begin of the next good one.
    :param broken: connections that were to be kept, and ended.
    :param errors: what the first ones that failed said, and when, in UTC;
                   those that were kept, too.
    """

    requests: int
    failed: int
    dark: float
    broken: int
    errors: tuple


@dataclasses.dataclass(frozen=True)
class Held:
    """What became of many connections that were to be kept.

    :param opened: the ports of those that were ever used.
    :param broken: {port: error} of those that ended, by whatever means.
    :param refused: errors of those that could not be opened.
    :param slowest: seconds of the longest exchange of those that live.
    """

    opened: frozenset
    broken: dict
    refused: tuple
    slowest: float

    @property
    def alive(self):
        return self.opened - set(self.broken)


def read(text):
    """Read what the script printed; returns Requests in order."""
    requests = []
    for line in text.splitlines():
        how, began, duration, error = line.split(' ', 3)
        how, _, port = how.partition('-')
        requests.append(Request(how != 'new', float(began), float(duration),
                                '' if error == 'ok' else error,
                                int(port) if port else None))
    return sorted(requests, key=lambda request: request.began)


def report(requests):
    """Sum up Requests; returns a Report."""
    new = [request for request in requests if not request.kept]
    dark, since = 0, None
    for request in new:
        if request.error and since is None:
            since = request.began
        elif not request.error and since is not None:
            dark += request.began - since
            since = None
    if since is not None:
        dark += new[-1].began + new[-1].duration - since
    failed = [request for request in new if request.error]
    broken = [request for request in requests
              if request.kept and request.error]
    return Report(len(new), len(failed), round(dark, 3), len(broken),
                  tuple(map(_tell, [request for request in requests
                                    if request.error][:_TOLD])))


def _tell(request):
    began = datetime.datetime.fromtimestamp(request.began, datetime.UTC)
    return (f'{began:%H:%M:%S.%f} {"kept: " if request.kept else ""}'
            f'{request.error} ({request.duration:.3f} s)')


def report_held(requests):
    """Sum up Requests of many connections; returns Held."""
    opened = frozenset(request.port for request in requests if request.port)
    broken = {request.port: request.error for request in requests
              if request.port and request.error}
    return Held(opened, broken, tuple(sorted(
        request.error for request in requests if not request.port)), max(
            (request.duration for request in requests
             if request.port in opened - set(broken)), default=0))


class _Client:
    """One that uses a load balancer, in its way.

    :param timeout: seconds after which a request has failed.
    :param host: the name in requests, and of TLS (SNI).
    :param authority: path of what it trusts, for https.
    :param certificate: path of what it shows then, with its key.
    :param status: of a right answer.
    :param location: where a right answer redirects to.
    :param answers: the right ones; any if None.
    :param is_faithful: whether only the answer that it got first is right.
    :param keeps_cookies: whether it shows the cookies of the first answer.
    """

    def __init__(self, url, timeout, host=None, authority=None,
                 certificate=None, status=200, location=None, answers=None,
                 is_faithful=False, keeps_cookies=False):
        parts = urllib.parse.urlsplit(url)
        self._is_udp = parts.scheme == 'udp'
        self._tls = {}
        if parts.scheme == 'https':
            context = ssl.create_default_context(cafile=authority)
            if certificate:
                context.load_cert_chain(certificate)
            self._tls = {'ssl': context,
                         'server_hostname': host or parts.hostname}
        self._address = (parts.hostname,
                         parts.port or (443 if self._tls else 80))
        self._timeout = timeout
        self._request = (f'GET {parts.path or "/"} HTTP/1.1\r\n'
                         f'Host: {host or parts.hostname}\r\n').encode()
        self._status = status
        self._location = location
        self._answers = answers
        self._is_faithful = is_faithful
        self._keeps_cookies = keeps_cookies

    async def run(self, rate):
        if self._is_faithful or self._keeps_cookies:
            await self._begin(rate)
        if not self._is_udp:
            asyncio.get_running_loop().create_task(self._keep(rate))
        begin = time.monotonic()
        pending = set()
        for number in range(sys.maxsize):
            await asyncio.sleep(begin + number / rate - time.monotonic())
            task = asyncio.create_task(self._timed('new', self._ask_anew()))
            pending.add(task)
            task.add_done_callback(pending.discard)

    async def _begin(self, rate):
        """Ask until there is an answer, which those that follow refer to."""
        while await self._timed('new', self._ask_anew()):
            await asyncio.sleep(1 / rate)
        self._keeps_cookies = False

    async def _keep(self, rate):
        stream = None
        while True:
            if stream is None:
                try:
                    stream = await asyncio.wait_for(
                        self._connect(), self._timeout)
                except OSError:
                    await asyncio.sleep(1 / rate)
                    continue
            error = await self._timed('kept', self._ask(*stream))
            if error:
                stream[1].close()
                stream = None
            await asyncio.sleep(5 / rate)

    async def hold(self, rate, number, first=None):
        """Open connections, and use each until it breaks."""
        await asyncio.gather(*(
            self._hold(each / number / rate, 1 / rate,
                       first and first + each)
            for each in range(number)))

    async def _hold(self, delay, pause, port):
        # Not all at the same moment.
        await asyncio.sleep(delay)
        if self._is_udp:
            await self._hold_datagrams(pause, port)
            return
        began = time.time()
        try:
            stream = await asyncio.wait_for(
                asyncio.open_connection(*self._address, local_addr=port and (
                    '::' if ':' in self._address[0] else '0.0.0.0',  # nosec
                    port)), self._timeout)
        except OSError as e:
            print(f'held-0 {began:.4f} 0 {_describe(e)}', flush=True)
            return
        port = stream[1].get_extra_info('sockname')[1]
        # What breaks in between is seen at once.
        while not await self._timed(f'held-{port}', self._ask(*stream)):
            with contextlib.suppress(OSError):
                await asyncio.wait_for(stream[0].read(1), pause)
        stream[1].close()

    async def _hold_datagrams(self, pause, port):
        inbox = asyncio.Queue()
        transport, _ = await asyncio.get_running_loop(
        ).create_datagram_endpoint(
            lambda: _Inbox(inbox), local_addr=port and (
                '::' if ':' in self._address[0] else '0.0.0.0',  # nosec
                port), remote_addr=self._address)
        port = transport.get_extra_info('sockname')[1]
        home = []

        async def ask():
            # Sooner than _timed() gives up, which does not know the home.
            for _ in range(int(self._timeout) - 1):
                transport.sendto(b'?')
                try:
                    answer = await asyncio.wait_for(inbox.get(), 1)
                except TimeoutError:
                    continue
                if isinstance(answer, Exception):
                    raise answer
                self._check(answer.encode())
                home.append(answer)
                if answer != home[0]:
                    raise ValueError(f'{answer} in place of {home[0]}')
                return
            raise ValueError(f'no answer of {" ".join(home[:1])}')

        while not await self._timed(f'held-{port}', ask()):
            await asyncio.sleep(pause)
        transport.close()

    async def _timed(self, how, request):
        began, error = time.time(), 'ok'
        start = time.monotonic()
        try:
            await asyncio.wait_for(request, self._timeout)
        except (OSError, EOFError, ValueError) as e:
            error = _describe(e)
        duration = time.monotonic() - start
        print(f'{how} {began:.4f} {duration:.4f} {error}', flush=True)
        return None if error == 'ok' else error

    def _connect(self):
        return asyncio.open_connection(*self._address, **self._tls)

    async def _ask_anew(self):
        if self._is_udp:
            self._check(await self._exchange_datagrams())
            return
        try:
            reader, writer = await self._connect()
        except asyncio.CancelledError:
            raise TimeoutError('connecting') from None
        try:
            await self._ask(reader, writer, b'Connection: close\r\n')
        finally:
            writer.close()

    async def _exchange_datagrams(self):
        answer = asyncio.get_running_loop().create_future()
        transport, _ = await asyncio.get_running_loop(
        ).create_datagram_endpoint(lambda: _Datagrams(answer),
                                   remote_addr=self._address)
        try:
            transport.sendto(b'?')
            return await answer
        finally:
            transport.close()

    async def _ask(self, reader, writer, headers=b''):
        writer.write(self._request + headers + b'\r\n')
        status = await reader.readline()
        if not status:
            raise EOFError('closed')
        if b' %d ' % self._status not in status:
            raise ValueError(status.decode(errors='replace').strip())
        length, cookies, location = 0, [], None
        while (line := (await reader.readline()).strip()):
            name, _, value = line.partition(b':')
            if name.lower() == b'content-length':
                length = int(value)
            elif name.lower() == b'set-cookie':
                cookies.append(value.partition(b';')[0].strip())
            elif name.lower() == b'location':
                location = value.strip().decode()
        answer = await reader.readexactly(length)
        if location != self._location:
            raise ValueError(f'redirected to {location}')
        self._check(answer)
        if self._keeps_cookies:
            self._request += b'Cookie: ' + b'; '.join(cookies) + b'\r\n'

    def _check(self, answer):
        text = answer.decode(errors='replace')
        if self._answers is not None and text not in self._answers:
            raise ValueError(f'answer {text!r}')
        if self._is_faithful:
            self._answers = [text]


class _Datagrams(asyncio.DatagramProtocol):

    def __init__(self, answer):
        self._answer = answer

    def datagram_received(self, data, addr):
        if not self._answer.done():
            self._answer.set_result(data)

    def error_received(self, exc):
        if not self._answer.done():
            self._answer.set_exception(exc)


class _Inbox(asyncio.DatagramProtocol):

    def __init__(self, inbox):
        self._inbox = inbox

    def datagram_received(self, data, addr):
        self._inbox.put_nowait(data.decode(errors='replace'))

    def error_received(self, exc):
        self._inbox.put_nowait(exc)


def _describe(error):
    if isinstance(error, TimeoutError):
        return ' '.join(('timed out', *error.args))
    return f'{type(error).__name__}: {error}'


def _main():
    parser = argparse.ArgumentParser()
    parser.add_argument('url')
    parser.add_argument('rate', type=float)
    parser.add_argument('timeout', type=float)
    parser.add_argument('many', type=int, nargs='*')
    parser.add_argument('--how', type=json.loads, default={})
    given = parser.parse_args()
    client = _Client(given.url, given.timeout, **given.how)
    asyncio.run(client.hold(given.rate, *given.many) if given.many
                else client.run(given.rate))


if __name__ == '__main__':
    _main()

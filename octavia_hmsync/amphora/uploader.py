# SPDX-License-Identifier: Apache-2.0

"""Paces all uploads of a process, across its batches.

An amphora that hangs occupies a place for the whole upload_timeout. If each
batch had its own places, it would last as long as its slowest amphora and
delay the next batch. Here all batches share the places of the process, and a
batch that waits for its last answers occupies only the places of these.
"""

import asyncio
from collections import abc
import concurrent.futures
import dataclasses
import queue
import threading
import time
import typing

from octavia_hmsync.amphora import agent_client

_GATHER_TIME = 0.2

_Ended = tuple[agent_client.Upload, agent_client.Answer]


class Client(typing.Protocol):
    """Uploads configurations; see agent_client.create_client()."""

    async def upload(self, upload: agent_client.Upload
                     ) -> agent_client.Answer:
        """Upload one configuration."""


class Uploader:
    """An event loop in its own thread, with limits on its uploads.

    :param get_rate: called without arguments before each upload; returns how
                     many begin per second, at most; 0 for no limit.
    :param on_ended: called with (Answer, duration in seconds) for each
                     upload, in the event loop; it must not raise.
    """

    def __init__(self, concurrency: int,
                 get_rate: abc.Callable[[], float] = lambda: 0,
                 on_ended: abc.Callable[[agent_client.Answer, float], object]
                 = lambda answer, seconds: None) -> None:
        self._get_rate = get_rate
        self._on_ended = on_ended
        self._in_flight = 0
        self._next_start = 0.0
        self._is_ending = False
        self._slots = asyncio.Semaphore(concurrency)
        # In its own thread, because the caller writes to the database between
        # two answers, which would use up the time limit of every upload.
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(
            agent_client.THREADS, thread_name_prefix='hmsync-driver'))
        self._thread = threading.Thread(target=self._loop.run_forever,
                                        daemon=True, name='hmsync-uploads')
        self._thread.start()

    @property
    def in_flight(self) -> int:
        """How many uploads are under way."""
        return self._in_flight

    def upload_all(self, client: Client,
                   uploads: abc.Iterable[agent_client.Upload],
                   may_begin: abc.Callable[[], bool],
                   on_all_begun: abc.Callable[[], object]
                   ) -> abc.Iterator[list[_Ended]]:
        """Upload configurations concurrently.

        :param may_begin: called before each upload; once it returns False,
                          no more are begun. It must not raise.
        :param on_all_begun: called when no upload waits for its turn any
                             more; it must not raise, either.
        :returns: an iterator of lists of (Upload, Answer), as they end,
                  without uploads that were not begun.
        :raises Exception: any error of the client.
        """
        # None marks the end.
        answers: queue.SimpleQueue[_Ended | None] = queue.SimpleQueue()
        future = asyncio.run_coroutine_threadsafe(
            self._upload_all(client, uploads, may_begin, on_all_begun,
                             answers.put), self._loop)
        future.add_done_callback(lambda _future: answers.put(None))
        try:
            ended = False
            while not ended:
                chunk = [answers.get()]
                if chunk[0] is not None:
                    # A chunk costs a transaction; let a few gather.
                    time.sleep(_GATHER_TIME)
                while not answers.empty():
                    chunk.append(answers.get())
                ended = None in chunk
                yield [answer for answer in chunk if answer is not None]
        finally:
            # Their claims must last until they have ended.
            concurrent.futures.wait([future])
        future.result()

    def begin_no_more(self) -> None:
        """Let running uploads end, and begin no more."""
        self._is_ending = True

    def close(self) -> None:
        """End the thread; no upload may be running. Twice is harmless."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _upload_all(self, client: Client,
                          uploads: abc.Iterable[agent_client.Upload],
                          may_begin: abc.Callable[[], bool],
                          on_all_begun: abc.Callable[[], object],
                          put: abc.Callable[[_Ended], object]) -> None:
        async def upload_one(upload: agent_client.Upload) -> None:
            begun = self._loop.time()
            answer = await client.upload(upload)
            seconds = self._loop.time() - begun
            self._on_ended(answer, seconds)
            put((upload, dataclasses.replace(answer, seconds=seconds)))

        try:
            async with asyncio.TaskGroup() as group:
                try:
                    for upload in uploads:
                        await self._wait_for_rate()
                        await self._slots.acquire()
                        if self._is_ending or not may_begin():
                            self._slots.release()
                            break
                        # Counted here, so that an upload that is cancelled
                        # before it begins gives its place back, too.
                        self._in_flight += 1
                        group.create_task(
                            upload_one(upload)).add_done_callback(
                                self._on_task_done)
                finally:
                    on_all_begun()
        except ExceptionGroup as e:
            raise e.exceptions[0]

    def _on_task_done(self, _task: asyncio.Task[None]) -> None:
        self._in_flight -= 1
        self._slots.release()

    async def _wait_for_rate(self) -> None:
        rate = self._get_rate()
        if rate:
            now = self._loop.time()
            begin = max(now, self._next_start)
            self._next_start = begin + 1 / rate
            await asyncio.sleep(begin - now)

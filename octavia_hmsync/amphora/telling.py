# SPDX-License-Identifier: Apache-2.0

"""Configures all members of a cluster at once.

Each member has a short time for all its requests, so that a member that hangs
delays the rest for no longer. Octavia's driver plans the requests, and the
plugin sends them. A failure is one line for each member.
"""

import asyncio
from collections.abc import Callable
from concurrent import futures
import contextlib
import dataclasses
import hashlib
import json
import re
import time

from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions

# Members that are configured at once; each needs a connection and a file.
_AT_ONCE = 32
# Seconds for each request, in addition to a member's fixed time: hundreds of
# certificates take time without a hang.
_PER_REQUEST = 0.1
# A connection that is refused or breaks may mean a restarting agent.
_TRIES = 3
_PAUSE = 0.5
# Seconds for optional members after all required ones are done.
_GRACE = 1
# Bytes; details have a line for each load balancer.
_KEPT = 60000
# Characters of an agent's answer to show.
_DETAIL = 300
# haproxy names each file with its directory, whose ids say nothing.
_DIRECTORY = re.compile(r'(?<![\w:/.-])/(?:[\w.-]+/)+')


@dataclasses.dataclass(frozen=True)
class Target:
    """A member that is to be configured.

    :param plan: called with compat's Facts, in a separate thread, one at a
                 time; returns a list of Request.
    :param needs_facts: whether to ask its agent for these facts first.
    :param is_awaited: whether the caller waits for this member.
    """

    member_id: str
    amphora_id: str
    lb_network_ip: str | None
    plan: Callable
    needs_facts: bool = True
    is_awaited: bool = True


def tell(client, targets, seconds):
    """Send members the requests that are planned for them.

    :param seconds: for each member, plus a tenth for each request.
    :returns: {id of a member: why it did not take everything, in one line};
              empty if all members did.
    """
    return asyncio.run(_tell_all(client, targets, seconds))


def tell_one(client, amphora, plan, seconds, needs_facts=True):
    """Send an amphora the planned requests, or raise ClusterNotUpdated."""
    failures = tell(client, [Target(amphora.id, amphora.id,
                                    amphora.lb_network_ip, plan,
                                    needs_facts)], seconds)
    if failures:
        raise exceptions.ClusterNotUpdated(failures[amphora.id])


async def _tell_all(client, targets, seconds):
    places = asyncio.Semaphore(_AT_ONCE)
    with futures.ThreadPoolExecutor(1) as planner:
        async def tell_one(target):
            async with places:
                await _Teller(client, target, seconds, planner).tell()

        tasks = {asyncio.ensure_future(tell_one(target)): target
                 for target in targets}
        awaited = [task for task, target in tasks.items()
                   if target.is_awaited]
        others = set(tasks).difference(awaited)
        if awaited:
            await asyncio.wait(awaited)
        if others:
            _done, late = await asyncio.wait(others, timeout=_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
    return {target.member_id: _describe(task, target)
            for task, target in tasks.items()
            if task.cancelled() or task.exception()}


def _describe(task, target):
    where = f'amphora {target.amphora_id}'
    if task.cancelled():
        return f'{where}: was not done when the others were'
    error = task.exception()
    if isinstance(error, exceptions.HMSyncException):
        return f'{where}: {error}'
    # A renderer of configurations may raise anything.
    return f'{where}: {type(error).__name__}: {" ".join(str(error).split())}'


def _shorten(text):
    """Return the reason in an agent's answer, in one line."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        said = json.loads(text)
        text = f'{said["message"]}: {said["details"]}'
    # haproxy says what is wrong only after some notices.
    lines = [_DIRECTORY.sub('', line) for line in text.splitlines()
             if '[NOTICE]' not in line]
    # Escaped, for the terminal.
    return ascii(' '.join(' '.join(lines).split())[:_DETAIL])[1:-1]


class _Teller:
    """Configures one member."""

    def __init__(self, client, target, seconds, planner):
        self._client = client
        self._target = target
        self._seconds = seconds
        self._left = seconds
        self._planner = planner

    async def tell(self):
        """Send the requests; raise what the plan or the agent raises."""
        if not self._target.lb_network_ip:
            raise exceptions.AgentUnreachable(
                'has no address in the management network yet')
        facts = compat_driver.ANY
        if self._target.needs_facts:
            facts = compat_driver.Facts(await self._ask_json('info'),
                                        await self._ask_json('details'))
        # Rendering waits for other members' turns, outside this time limit.
        requests = await asyncio.get_running_loop().run_in_executor(
            self._planner, self._target.plan, facts)
        self._left += _PER_REQUEST * len(requests)
        self._seconds += _PER_REQUEST * len(requests)
        for request in requests:
            await self._do(request)

    async def _do(self, request):
        if request.unless_same and await self._has(request):
            return
        status, text = await self._ask(request.method, request.path,
                                       request.body)
        # Like Octavia's driver: it is gone or plugged already.
        if status == 404 and request.method == 'DELETE' or (
                status == 409 and request.path.startswith('plug/')):
            return
        self._check(status, request.method, request.path, text)

    async def _has(self, request):
        status, text = await self._ask('GET', request.path)
        if status != 200:
            return False
        # MD5, because the agent answers so; it protects nothing.
        ours = hashlib.md5(request.body.encode(), usedforsecurity=False)
        try:
            return json.loads(text)['md5sum'] == ours.hexdigest()
        except (ValueError, KeyError, TypeError):
            return False

    async def _ask_json(self, path):
        status, text = await self._ask('GET', path)
        self._check(status, 'GET', path, text)
        try:
            found = json.loads(text)
            if isinstance(found, dict) and (
                    path != 'info' or isinstance(found['haproxy_version'],
                                                 str)):
                return found
        except (ValueError, RecursionError, KeyError):
            pass
        raise exceptions.AgentRefused(
            f'its agent gives no {path} of itself: see who answers there')

    async def _ask(self, method, path, body=''):
        """Make a request, again if no connection could be made.

        Each request may be repeated: it states how something must be.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                answer = await self._ask_once(method, path, body)
            except exceptions.AgentUnreachable:
                if not tries_left or self._left <= _PAUSE:
                    raise
            else:
                # The kernel needs time to show a new interface.
                if answer[0] != 404 or not path.startswith('plug/'):
                    return answer
                while answer[0] == 404 and self._left > _PAUSE:
                    await self._pause()
                    # Its last answer tells more than that time ran out.
                    with contextlib.suppress(exceptions.AgentUnreachable):
                        answer = await self._ask_once(method, path, body)
                return answer
            await self._pause()
        raise AssertionError('not reached')

    async def _ask_once(self, method, path, body):
        if self._left <= 0:
            raise exceptions.AgentUnreachable(
                f'was not done within {self._seconds:g} s')
        began = time.monotonic()
        try:
            return await self._client.ask(
                self._target.amphora_id, self._target.lb_network_ip, method,
                path, body, 'application/json' if path.startswith('plug/')
                else 'application/octet-stream',
                timeout=round(self._left, 1) or 0.1, kept=_KEPT)
        finally:
            self._left -= time.monotonic() - began

    async def _pause(self):
        self._left -= _PAUSE
        await asyncio.sleep(_PAUSE)

    @staticmethod
    def _check(status, method, path, text):
        if 200 <= status < 300:
            return
        detail = ''
        if not path.endswith(('.pem', 'certificate', 'config')):
            # An answer to a secret may repeat it, and is not shown.
            detail = _shorten(text)
        raise exceptions.AgentRefused(
            f'its agent answered {status} to {method} {path}'
            f'{": " if detail else ""}{detail}. See '
            f'/var/log/amphora-agent.log in the amphora')

# SPDX-License-Identifier: Apache-2.0

"""Tells members of a cluster something, all of them at once.

Each has a short time for all of it: one that hangs holds nobody up for longer.
What Octavia's driver would ask an agent for is planned here, and asked for by
the plugin; what goes wrong is one line for each member.
"""

import asyncio
from collections.abc import Callable
from concurrent import futures
import dataclasses
import hashlib
import json
import time

from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions

# Members that are told at once; each takes a connection and a file.
_AT_ONCE = 32
# Seconds for each request beside those that a member has anyway: hundreds of
# certificates are no sign that it hangs.
_PER_REQUEST = 0.1
# A connection that is refused, or breaks, may be an agent that restarts.
_TRIES = 3
_PAUSE = 0.5
# Seconds more, after all of those who have to be told, for the others.
_GRACE = 1
# Bytes; details have a line for each load balancer.
_KEPT = 60000
# Of what an agent says.
_DETAIL = 300


@dataclasses.dataclass(frozen=True)
class Target:
    """A member that is told something.

    :param member_id: its id.
    :param amphora_id: of its amphora.
    :param lb_network_ip: the address of its agent.
    :param plan: called with compat's Facts, in a thread of its own, one at a
                 time, for its [Request].
    :param needs_facts: whether its agent is asked for these before.
    :param is_awaited: whether anybody waits for it.
    """

    member_id: str
    amphora_id: str
    lb_network_ip: str | None
    plan: Callable
    needs_facts: bool = True
    is_awaited: bool = True


def tell(client, targets, seconds):
    """Tell members what is planned for them.

    :param client: an agent_client.RestAgentClient.
    :param targets: a list of Target.
    :param seconds: that each member has, beside a tenth for each request.
    :returns: {id of a member: why it did not take all of it, in one line};
              empty where all have.
    """
    return asyncio.run(_tell_all(client, targets, seconds))


def tell_one(client, amphora, plan, seconds, needs_facts=True):
    """Tell one amphora what is planned for it.

    :param amphora: Octavia's data model of it.
    :param plan, needs_facts: as those of a Target.
    :raises ClusterNotUpdated: with the reason, if it did not take all of it.
    """
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
    # What renders a configuration may raise anything.
    return f'{where}: {type(error).__name__}: {" ".join(str(error).split())}'


class _Teller:
    """Tells one member.

    :param planner: an executor.
    """

    def __init__(self, client, target, seconds, planner):
        self._client = client
        self._target = target
        self._seconds = seconds
        self._left = seconds
        self._planner = planner

    async def tell(self):
        """Do it.

        :raises AgentUnreachable, AgentRefused: if the agent does not do it.
        :raises Exception: whatever planning raises.
        """
        if not self._target.lb_network_ip:
            raise exceptions.AgentUnreachable(
                'has no address in the management network yet')
        facts = compat_driver.ANY
        if self._target.needs_facts:
            facts = compat_driver.Facts(await self._ask_json('info'),
                                        await self._ask_json('details'))
        # It takes a processor, and others their turn: not this one's time.
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
        # As Octavia's driver: what is gone, or plugged, is so already.
        if status == 404 and request.method == 'DELETE' or (
                status == 409 and request.path.startswith('plug/')):
            return
        self._check(status, request.method, request.path, text)

    async def _has(self, request):
        status, text = await self._ask('GET', request.path)
        if status != 200:
            return False
        # As the agent tells it; nobody trusts in it.
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
        """Make a request, again where nobody was there to take it.

        Each may be made twice: it says how something is to be.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                answer = await self._ask_once(method, path, body)
            except exceptions.AgentUnreachable:
                if not tries_left or self._left <= _PAUSE:
                    raise
            else:
                # The kernel takes its time to show a new interface.
                if answer[0] != 404 or not path.startswith('plug/'):
                    return answer
                while answer[0] == 404 and self._left > _PAUSE:
                    await self._pause()
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
            # An agent's own words: nothing in them may reach a terminal as it
            # is. Where it was sent what is secret, they may repeat that.
            detail = ascii(' '.join(text[:_DETAIL].split()))[1:-1]
        raise exceptions.AgentRefused(
            f'its agent answered {status} to {method} {path}'
            f'{": " if detail else ""}{detail}. See '
            f'/var/log/amphora-agent.log in the amphora')

# SPDX-License-Identifier: Apache-2.0

"""Checks whether this host can talk to the agents of amphorae."""

import asyncio
import datetime

from oslo_utils import timeutils

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.services.checks import result
from octavia_hmsync.sync.db import amphora as amphora_repo

# How many agents are tried, and for how many seconds: one that answers is
# enough, and one may be dead.
_SAMPLE = 3
_TIMEOUT = 3
_ENDS_SOON = datetime.timedelta(days=14)


def check_files(conf):
    """Return a Result; None if certificates are valid for long."""
    try:
        agent_client.create_context(conf)
        validity = agent_client.get_validity(conf)
    except exceptions.InvalidConfiguration as e:
        return result.failure(f'{e} Only a host with octavia-api alone needs '
                              f'none.')
    ends = [f'[haproxy_amphora] {option} = {conf.haproxy_amphora[option]} '
            f'ends on {last:%Y-%m-%d}, and no agent can be reached after '
            f'that: renew it.' for option, (_first, last) in validity.items()
            if last < timeutils.utcnow() + _ENDS_SOON]
    return result.warning(' '.join(ends)) if ends else None


def check_agents(conf, engine):
    """Whether the certificates can be used, and an agent answers here."""
    if conf.controller_worker.amphora_driver not in compat.REST_DRIVERS:
        return result.not_checked(
            f'[controller_worker] amphora_driver = '
            f'{conf.controller_worker.amphora_driver} has certificates and '
            f'agents of its own.')
    found = check_files(conf)
    if found and found.code is result.FAILURE:
        return found
    amphorae = amphora_repo.get_heard(engine, _SAMPLE)
    if not amphorae:
        return found or result.not_checked('There is no amphora to try.')
    errors = asyncio.run(_ask(conf, amphorae))
    if not all(errors):
        return found or result.success()
    return result.warning(
        f'None of {len(amphorae)} agents that were tried can be used from '
        f'here. Of amphora {amphorae[0].id}: {errors[0]}. Check the route '
        f'from here to TCP {conf.haproxy_amphora.bind_port} of amphorae, '
        f'their security group, and that [haproxy_amphora] here is that of '
        f'octavia-worker.')


async def _ask(conf, amphorae):
    """Make a harmless request of each agent; return errors or None."""
    client = agent_client.RestAgentClient(conf)

    async def ask(amphora):
        try:
            await client.ask(amphora.id, amphora.lb_network_ip, 'GET', 'info',
                             timeout=_TIMEOUT)
        except (exceptions.AgentUnreachable, ValueError) as e:
            return str(e)
        return None

    return await asyncio.gather(*map(ask, amphorae))

# SPDX-License-Identifier: Apache-2.0

"""The haproxy version of an amphora, according to its agent.

Only the image service knows the version of an image, and not for long. So the
version of haproxy shows what an amphora runs.
"""

import asyncio
import json
import re

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import compat

# An agent may answer anything; only text like this may reach a terminal.
_VERSION = re.compile(r'[\w.:+~-]{1,64}')


def get_haproxy_versions(conf, amphorae):
    """Ask agents for the version of their haproxy.

    It asks as many at once as there may be uploads, each for as long as an
    upload may take. Only agents for Octavia's REST driver can be asked.

    :returns: {amphora id: version}, without amphorae that did not answer.
    :raises InvalidConfiguration: if the certificates that octavia.conf names
                                  cannot be used.
    """
    if conf.controller_worker.amphora_driver not in compat.REST_DRIVERS:
        return {}
    return asyncio.run(_ask_all(conf, [
        (amphora_id, address) for amphora_id, address in amphorae if address]))


async def _ask_all(conf, amphorae):
    client = agent_client.RestAgentClient(conf)
    places = asyncio.Semaphore(agent_client.concurrency(conf))

    async def ask(amphora_id, address):
        async with places:
            return await _ask(client, amphora_id, address)

    versions = await asyncio.gather(*(ask(*a) for a in amphorae))
    return {amphora_id: version for (amphora_id, _address), version
            in zip(amphorae, versions, strict=True) if version}


async def _ask(client, amphora_id, address):
    """Return a version, or None if there is no proper answer."""
    try:
        status, body = await client.ask(amphora_id, address, 'GET', 'info')
        version = json.loads(body)['haproxy_version']
    except Exception:
        # The version is shown as missing; uploads report the reason.
        return None
    if (status == 200 and isinstance(version, str) and
            _VERSION.fullmatch(version)):
        return version
    return None

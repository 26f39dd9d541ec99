# SPDX-License-Identifier: Apache-2.0

"""The haproxy version of an amphora, according to its agent.

Only the image service knows the version of an image, and not for long. So the
version of haproxy shows what an amphora runs.
"""

import asyncio
import json
import re

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import answer
from octavia_hmsync.amphora import tls
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
    client = _InfoClient(conf)
    return asyncio.run(client.get_all(
        [(amphora_id, address) for amphora_id, address in amphorae
         if address]))


class _InfoClient:

    def __init__(self, conf):
        self._port = conf.haproxy_amphora.bind_port
        self._interface = conf.haproxy_amphora.lb_network_interface
        self._timeout = conf.hmsync.upload_timeout
        self._concurrency = agent_client.concurrency(conf)
        self._tls = agent_client.create_context(conf)

    async def get_all(self, amphorae):
        places = asyncio.Semaphore(self._concurrency)

        async def get(amphora_id, address):
            async with places:
                return await self._get(amphora_id, address)

        versions = await asyncio.gather(*(get(*a) for a in amphorae))
        return {amphora_id: version for (amphora_id, _address), version
                in zip(amphorae, versions, strict=True) if version}

    async def _get(self, amphora_id, address):
        """Return a version, or None if there is no proper answer."""
        reader = answer.AnswerReader()
        request = (f'GET /1.0/info HTTP/1.1\r\nHost: {amphora_id}\r\n'
                   f'User-Agent: octavia-hmsync\r\n'
                   f'Connection: close\r\n\r\n'.encode())
        try:
            host = agent_client.get_host(address, self._interface)
            async with asyncio.timeout(self._timeout):
                await tls.exchange(host, self._port, self._tls, amphora_id,
                                   request, reader)
            if reader.status != 200:
                return None
            version = json.loads(reader.body)['haproxy_version']
        except Exception:
            # The version is shown as missing; uploads report the reason.
            return None
        if isinstance(version, str) and _VERSION.fullmatch(version):
            return version
        return None

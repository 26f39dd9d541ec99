# SPDX-License-Identifier: Apache-2.0

"""Which haproxy an amphora has, as its agent tells it.

The version of the image is what nobody knows but the image service, and not
for long; this is what is in the amphora.
"""

import asyncio
import json
import re

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import answer
from octavia_hmsync.amphora import tls
from octavia_hmsync import compat

# An agent may answer anything; nothing else of it may reach a terminal.
_VERSION = re.compile(r'[\w.:+~-]{1,64}')


def get_haproxy_versions(conf, amphorae):
    """Ask agents for the version of their haproxy.

    As many at once as uploads, each for as long as an upload may take. Only
    those that Octavia's REST driver speaks to can be asked.

    :param conf: a parsed oslo.config object.
    :param amphorae: a list of (amphora id, lb_network_ip or None).
    :returns: a dict of versions by id; without those that give no answer.
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
            # Whatever it is, it is one answer less; the uploads say why.
            return None
        if isinstance(version, str) and _VERSION.fullmatch(version):
            return version
        return None

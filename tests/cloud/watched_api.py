# SPDX-License-Identifier: Apache-2.0

"""A proxy before octavia-api that notes what a client asks and is shown."""

import dataclasses
import json
import re

from tests.cloud import http_proxy

_ID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
# Two names of one version.
_VERSION = re.compile('^/v2(.0)?')
_PROVISIONING = 'provisioning_status'
_OPERATING = 'operating_status'


@dataclasses.dataclass(frozen=True)
class Sight:
    """An answer as a client sees it.

    :param what: the method and the path, without ids and values.
    :param code: the status of HTTP.
    :param provisioning: all provisioning statuses in it, sorted.
    :param operating: all operating statuses in it, sorted.
    """

    what: str
    code: int
    provisioning: tuple[str, ...] = ()
    operating: tuple[str, ...] = ()

    def __str__(self):
        return ' '.join([self.what, str(self.code), *self.provisioning,
                         *self.operating])


def _find(content, key):
    if isinstance(content, dict):
        if isinstance(content.get(key), str):
            yield content[key]
        for each in content.values():
            yield from _find(each, key)
    elif isinstance(content, list):
        for each in content:
            yield from _find(each, key)


def see(method, path, code, body):
    """Return the Sight of an answer.

    :param body: bytes.
    """
    path, _, query = path.partition('?')
    keys = sorted(each.partition('=')[0] for each in query.split('&') if each)
    what = ' '.join([method, _VERSION.sub('', _ID.sub('*', path)), *keys])
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    provisioning, operating = (
        tuple(sorted(set(_find(content, key))))
        for key in (_PROVISIONING, _OPERATING))
    # Octavia shows members that are made with their load balancer as
    # NO_MONITOR or as OFFLINE, by whether Python has yet deleted the health
    # monitor that it asks about (octavia/api/v2/controllers/member.py,
    # _graph_create).
    if path.endswith('/members'):
        operating = ()
    return Sight(what, code, provisioning, operating)


class WatchedAPI(http_proxy.FaultyProxy):
    """Passes all on to an octavia-api, as requests of one project.

    :param port: of octavia-api, on the loopback address.
    :param project_id: whose requests they are.
    :param on_pending: called after each answer to a GET in which something is
                       pending.
    """

    def __init__(self, port, project_id, on_pending=None):
        super().__init__(port)
        self._project_id = project_id
        self._on_pending = on_pending
        self._seen = []

    def take(self):
        """Return what was seen since the last call, equal ones once."""
        with self._lock:
            seen, self._seen = self._seen, []
        return [sight for number, sight in enumerate(seen)
                if not number or sight != seen[number - 1]]

    def _pass_on(self, method, path, body, headers):
        if 'X-Project-Id' not in headers:
            headers['X-Project-Id'] = self._project_id
        answer = super()._pass_on(method, path, body, headers)
        sight = see(method, path, answer[0], answer[2])
        with self._lock:
            self._seen.append(sight)
        if (self._on_pending is not None and method == 'GET' and
                any(status.startswith('PENDING')
                    for status in sight.provisioning)):
            self._on_pending()
        return answer

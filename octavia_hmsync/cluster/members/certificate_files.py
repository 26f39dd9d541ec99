# SPDX-License-Identifier: Apache-2.0

"""Names the files of certificates by what is in them.

Octavia's driver names a certificate by its thumbprint, and the list of the
certificates of a listener by the listener. A change would overwrite what the
former configuration names. If haproxy rejects the change, the former
configuration would be back, but not its files, and haproxy could not begin
with them after a reload, a crash or a reboot.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import hashlib
import posixpath
import re

from octavia_hmsync.cluster.members import ticket_keys
from octavia_hmsync.compat import amphora_driver as compat_driver

_DIGITS = 32


def rename(requests: Iterable[compat_driver.Request], load_balancer_id: str,
           pems: Mapping[str, str] | None = None
           ) -> list[compat_driver.Request]:
    """Return the requests with other names of files.

    What is deleted is deleted last: until then the former configuration
    needs it.

    :param requests: of Octavia's driver, a file before what names it.
    :param pems: {name: content} of what goes with a listener, by the names of
                 Octavia's driver.
    """
    names: dict[str, str] = {}
    # A listener has what is in its list, which another one may have by the
    # same name and with another key.
    pattern = re.compile(
        rf'(?<=/{re.escape(load_balancer_id)}/)[\w-]+\.pem(?!\S)', re.ASCII)
    kept: list[compat_driver.Request] = []
    gone: list[compat_driver.Request] = []
    for request in requests:
        name = _find_name(request.path)
        if name is None:
            kept.append(dataclasses.replace(
                request, body=_replace(pattern, names, request.body)))
        elif request.method == 'DELETE':
            # Of a member that was configured before files had other names.
            gone.append(request)
        else:
            body = _replace(pattern, names, request.body)
            names[name] = _choose(name, body)
            kept.append(dataclasses.replace(
                request, path=_move(request.path, names[name]), body=body))
    used = {request.path for request in kept}
    return kept + gone + [
        compat_driver.Request('DELETE', path) for path in (
            ticket_keys.get_path(load_balancer_id, _choose(name, body))
            for name, body in (pems or {}).items()) if path not in used]


def _replace(pattern, names, text):
    return pattern.sub(lambda found: names.get(found[0], found[0]), text)


def _find_name(path):
    directory, name = posixpath.split(path)
    # The name of a file with keys says to whom they belong; they change.
    return (name if posixpath.basename(directory) == 'certificates' and
            not ticket_keys.is_file(name) else None)


def _move(path, name):
    return posixpath.join(posixpath.dirname(path), name)


def _choose(name, content):
    stem, ending = posixpath.splitext(name)
    return (f'{stem}-{hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]}'
            f'{ending}')

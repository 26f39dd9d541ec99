#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Whether all controllers have the same heartbeat key.

An upload replaces the key in an amphora, too: from a controller with another
one than the health managers', it would silence the whole fleet.
"""

from collections import abc
import functools
import hashlib

from octavia_hmsync import exceptions


@functools.lru_cache(maxsize=4)
def digest(key: str | None) -> str | None:
    """Return what tells whether two keys are the same, and not what they are.

    Slow on purpose, for keys that people have made up.

    :param key: ``[health_manager] heartbeat_key``, or None.
    :returns: 64 hexadecimal digits, or None without a key.
    """
    if not key:
        return None
    # PBKDF2, because scrypt is not to be had on a FIPS system.
    return hashlib.pbkdf2_hmac('sha256', str(key).encode(), b'octavia-hmsync',
                               iterations=200_000).hex()


def find_others(key: str | None,
                digests: abc.Mapping[str, str | None]) -> list[str]:
    """Find the health managers that have another key than this controller.

    :param key: this controller's ``[health_manager] heartbeat_key``.
    :param digests: digest by host of the health managers that are up.
    :returns: their hosts, a sorted list.
    """
    return sorted(host for host, other in digests.items()
                  if other is not None and other != digest(key))


def check(key: str | None, digests: abc.Mapping[str, str | None]) -> None:
    """Check that this controller may upload its key.

    :param key: this controller's ``[health_manager] heartbeat_key``.
    :param digests: digest by host of the health managers that are up.
    :raises InvalidConfiguration: if there is none, or another one.
    """
    if not key:
        raise exceptions.InvalidConfiguration(
            'No amphora is configured: [health_manager] heartbeat_key is not '
            'set here, and an upload would take it from every amphora. Set '
            'it to that of the health managers and restart the service.')
    others = find_others(key, digests)
    if others:
        raise exceptions.InvalidConfiguration(
            f'No amphora is configured: [health_manager] heartbeat_key here '
            f'is not that of the health managers {", ".join(others)}, which '
            f'would hear no amphora any more. Make it the same everywhere '
            f'and restart the services.')

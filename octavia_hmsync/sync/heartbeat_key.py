# SPDX-License-Identifier: Apache-2.0

"""The digest of a heartbeat key, and whether a controller may upload its own.

An upload also replaces the key in an amphora. If it came from a controller
with another key than the health managers', it would silence the amphora.
"""

from collections import abc
import functools
import hashlib

from octavia_hmsync import exceptions
from octavia_hmsync.sync.rules import key as membership_key


@functools.lru_cache(maxsize=4)
def digest(key: str | None) -> str | None:
    """Return a digest that can be compared, but does not reveal the key.

    Slow on purpose, as operators make up weak keys.

    :returns: 64 hexadecimal digits, or None without a key.
    """
    if not key:
        return None
    # PBKDF2, because a FIPS system lacks scrypt.
    return hashlib.pbkdf2_hmac('sha256', str(key).encode(), b'octavia-hmsync',
                               iterations=200_000).hex()


def find_others(key: str | None,
                digests: abc.Mapping[str, str | None]) -> list[str]:
    """Find those up, {host: digest}, with another key than this one."""
    return sorted(host for host, other in digests.items()
                  if other is not None and other != digest(key))


def check(key: str | None, keys: membership_key.Keys,
          wanted: str | None) -> None:
    """Raise InvalidConfiguration if this controller may not upload it."""
    own = digest(key)
    if own is None:
        raise exceptions.InvalidConfiguration(
            'No amphora is configured: [health_manager] heartbeat_key is not '
            'set here, and an upload would take it from every amphora. Set '
            'it to that of the health managers and restart the service.')
    obstacle = keys.find_obstacle(own, wanted)
    if obstacle is membership_key.Obstacle.NOBODY_LISTENS:
        others = ', '.join(keys.find_other_managers(own)) or 'all of them'
        raise exceptions.InvalidConfiguration(
            f'No amphora is configured: no health manager that is up listens '
            f'with the [health_manager] heartbeat_key that this controller '
            f'has. Each reads its key when it starts: restart octavia-health-'
            f'manager with this key, half of them first, on {others}; or give '
            f'this controller the key that they have.')
    if obstacle is membership_key.Obstacle.OTHERS_DIFFER:
        raise exceptions.InvalidConfiguration(
            f'No amphora is configured from here: the published list is for '
            f'another [health_manager] heartbeat_key than this controller '
            f'has. A new key goes to amphorae when every housekeeper has it: '
            f'restart octavia-housekeeping with the same key on '
            f'{", ".join(keys.find_other_keepers(own))}.')
    if obstacle is membership_key.Obstacle.NO_LIST_YET:
        others = ', '.join(keys.find_other_managers(own)) or 'none of them'
        raise exceptions.InvalidConfiguration(
            f'No amphora is configured from here yet: no list is published '
            f'for the [health_manager] heartbeat_key that this controller '
            f'has. Health managers that are up and listen with another one: '
            f'{others}.')

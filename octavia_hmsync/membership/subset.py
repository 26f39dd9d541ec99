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

"""Which of the published addresses one amphora gets."""

import hashlib
import math

from octavia_hmsync.membership import addresses as addr


def max_list_length(heartbeat_timeout, heartbeat_interval):
    """Return how many addresses one amphora's list may hold.

    An amphora sends each heartbeat to one address, round robin. With one
    more than this, one health manager that is alive among dead ones hears an
    amphora too rarely to keep it from being declared dead.

    :param heartbeat_timeout: ``[health_manager] heartbeat_timeout``, seconds.
    :param heartbeat_interval: ``heartbeat_interval``, seconds.
    :returns: at least 1.
    """
    return max(1, math.floor(heartbeat_timeout / heartbeat_interval) - 1)


def _weight(key, address):
    digest = hashlib.sha256(f'{key}|{address}'.encode()).digest()
    return digest, address


def subset(key, addresses, length):
    """Choose the addresses for one amphora by rendezvous hashing.

    Each key ranks all addresses in an order of its own and takes the first,
    so that load is even, and a change of one address concerns only the keys
    that had it or now get it.

    :param key: the amphora's id.
    :param addresses: the published list.
    :param length: how many it may get, see max_list_length().
    :returns: a tuple in the canonical order, whole when it is short enough.
    """
    if len(addresses) > length:
        addresses = sorted(addresses, key=lambda a: _weight(key, a))[:length]
    return addr.canonical(addresses)

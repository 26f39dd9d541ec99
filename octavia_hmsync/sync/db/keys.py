# SPDX-License-Identifier: Apache-2.0

"""Which service has which heartbeat key."""

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import listeners as listeners_repo
from octavia_hmsync.sync.rules import key
from octavia_hmsync.sync.rules import trial


def get_keys(engine, settings):
    """Return the key.Keys."""
    return make_keys(engine, listeners_repo.get_listeners(engine, settings),
                     generation_repo.get_newest(engine))


def make_keys(engine, listeners, newest):
    """Return the key.Keys.

    :param listeners: listening.Listeners, for any key.
    :param newest: the newest Generation, or None.
    """
    return key.Keys(
        newest.key_digest if newest and newest.status != trial.ROLLED_BACK
        else None,
        keeper_repo.get_key_digests(
            engine, listeners.settings.offline_after if listeners.is_steady
            else None),
        listeners, frozenset(trial.get_suspects(
            generation_repo.get_suspects(engine), listeners.members)))

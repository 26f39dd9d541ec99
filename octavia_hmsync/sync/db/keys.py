# SPDX-License-Identifier: Apache-2.0

"""Which service has which heartbeat key."""

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.rules import key
from octavia_hmsync.sync.rules import trial


def get_keys(engine, settings):
    """Return the key.Keys."""
    return make_keys(engine,
                     listening_repo.get_health_managers(engine, settings),
                     generation_repo.get_newest(engine))


def make_keys(engine, managers, newest):
    """Return the key.Keys, with HealthManagers for any key."""
    return key.Keys(
        newest.key_digest if newest and newest.status != trial.ROLLED_BACK
        else None,
        keeper_repo.get_key_digests(
            engine, managers.settings.offline_after if managers.is_steady
            else None),
        managers, frozenset(trial.get_suspects(
            generation_repo.get_suspects(engine), managers.members)))

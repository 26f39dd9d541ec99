# SPDX-License-Identifier: Apache-2.0

"""Who listens for heartbeats, and who has which key, from the database."""

import math

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.rules import key
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import trial


def get_health_managers(engine, settings,
                        note_look=lambda now: (math.inf, math.inf),
                        key_digest=None):
    """Return the listening.HealthManagers.

    :param note_look: called when the members have been read, with the
                      database's time then or None; returns
                      (reader_steady_for, clock_steady_for), see
                      listening.HealthManagers.
    """
    members, now = hm_repo.get_all_at(engine)
    steady_for, clock_steady_for = note_look(now)
    pins = keeper_repo.get_pins(engine)
    return listening.HealthManagers(
        mem.keep_some(members, lambda member: mem.state_of(
            member, settings.offline_after, steady_for, clock_steady_for)),
        [a for a, age in pins.items() if age <= settings.lapses_after],
        settings, left_repo.get_all(engine) if pins else (), steady_for,
        key_digest, pins, clock_steady_for)


def get_keys(engine, settings):
    """Return the key.Keys."""
    return make_keys(engine,
                     get_health_managers(engine, settings),
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

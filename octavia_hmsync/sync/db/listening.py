# SPDX-License-Identifier: Apache-2.0

"""Who listens for heartbeats, from the database."""

import math

from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.rules import listening


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
        members,
        [a for a, age in pins.items() if age <= settings.lapses_after],
        settings, left_repo.get_all(engine) if pins else (), steady_for,
        key_digest, pins, clock_steady_for)

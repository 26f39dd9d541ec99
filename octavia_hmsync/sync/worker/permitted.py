# SPDX-License-Identifier: Apache-2.0

"""Which lists a controller may upload with its heartbeat key."""

from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import keys as keys_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.worker import targets


def get_targets(conf, engine):
    """Return what a controller with this key should upload now.

    :returns: as targets.get_targets(), without lists for another heartbeat
              key.
    :raises InvalidConfiguration: if all lists are for another key.
    """
    wanted = targets.get_targets(engine)
    if not wanted:
        return []
    keys = keys_repo.get_keys(engine, timing.Settings.from_conf(conf))
    permitted, problem = [], None
    for target in wanted:
        try:
            heartbeat_key.check(conf.health_manager.heartbeat_key, keys,
                                target.generation.key_digest)
            permitted.append(target)
        except exceptions.InvalidConfiguration as e:
            problem = problem or e
    if problem and not permitted:
        raise problem
    return permitted

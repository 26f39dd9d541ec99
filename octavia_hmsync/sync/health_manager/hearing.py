# SPDX-License-Identifier: Apache-2.0

"""Whether silent amphorae could have been heard, judged from the database.

The rule is in octavia_hmsync.sync.rules.silence.
"""

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.rules import silence
from octavia_hmsync.sync.rules import timing


def get_health_managers(conf, engine):
    """Return the addresses with a listener, as listening.HealthManagers."""
    return listening_repo.get_health_managers(engine,
                                              timing.Settings.from_conf(conf))


def find_unheard(conf, engine, silent, hold_max):
    """Find amphorae whose silence the control plane may have caused.

    :param silent: rows with the columns of hmsync_amphora, the amphora's
                   ``id``, ``last_update``, and the database's time as
                   ``now``.
    :param hold_max: seconds for which that excuses an amphora at most, see
                     silence.must_hold(); None for no limit.
    :returns: their ids, a list in the order of the rows.
    """
    if not silent:
        return []
    managers = get_health_managers(conf, engine)
    newest = generation_repo.get_newest(engine)
    others = previous_repo.get_known(engine, silent)
    doubtful = generation_repo.find_doubtful(
        engine, {row.generation for row in silent})
    gone = (_find_gone(conf, engine, newest.number, silent) if newest
            else set())
    return [row.id for row in silent if silence.must_hold(
        _to_silent(row, others.get(row.id, ()), row.id in gone, doubtful,
                   hold_max is None),
        managers, hold_max or 0)]


def _find_gone(conf, engine, number, silent):
    attempts = attempt_repo.get_attempts(engine, number,
                                         [row.id for row in silent])
    if not attempts:
        return set()
    uploaders = uploader_repo.get_all(engine)
    return {amphora_id for amphora_id, of_each in attempts.items()
            if reach.is_believed(of_each, uploaders,
                                 conf.hmsync.offline_after)}


def _to_silent(row, others, is_gone, doubtful, is_for_ever):
    def age(value):
        return None if value is None else (row.now - value).total_seconds()

    return silence.SilentAmphora(
        addresses=None if row.controller_ip_port_list is None
        else addr.split_list(row.controller_ip_port_list),
        others=others,
        applied_age=age(row.applied_at),
        is_gone=is_gone,
        held_for=None if is_for_ever or is_heard_since(row)
        else age(row.held_since),
        is_on_trial=row.generation in doubtful,
        key_digest=row.key_digest,
        previous_key_digest=None if row.adopted_at
        else row.previous_key_digest)


def is_heard_since(row):
    """Tell whether it was heard during its hold, and fell silent again."""
    return row.held_since is not None and not (
        hold_repo.is_last_update_ours(row))

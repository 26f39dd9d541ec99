# SPDX-License-Identifier: Apache-2.0

"""What commands say of replacements, and of housekeeping."""

from octavia_hmsync import exceptions
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo


def describe(replacement):
    """Return the progress of a replacement, in one line."""
    state = replacement.state
    if state == replace_repo.RUNNING and replacement.phase:
        state = replacement.phase
        if replacement.new_amphora_id:
            state = (f'{state}, amphora {replacement.new_amphora_id} for '
                     f'{replacement.old_amphora_id}')
    return join(state, replacement.reason)


def join(state, reason):
    """Put a state and its reason, if any, in one line."""
    return f'{state} ({reason})' if reason else state


def check_that_somebody_is_up(engine, max_age):
    """Raise NotPossible if no housekeeper is up to replace amphorae."""
    if not keeper_repo.get_up(engine, max_age):
        raise exceptions.NotPossible(
            f'No octavia-housekeeping has given a sign of life for {max_age} '
            f's, so that no amphora would be replaced: start one, or see its '
            f'log, and run the command again.')


def describe_nobody(max_age):
    """Report in one line that no housekeeper is there to replace amphorae."""
    return (f'No octavia-housekeeping has given a sign of life for {max_age} '
            f's: no amphora is replaced.')

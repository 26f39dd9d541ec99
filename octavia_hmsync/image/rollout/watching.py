# SPDX-License-Identifier: Apache-2.0

"""Finds late failures of new amphorae that were proven to serve.

Pure rules, about load balancers whose replacement was DONE a moment ago.
"""

import dataclasses

from octavia_hmsync import compat
from octavia_hmsync.image.db import aftermath as aftermath_repo


@dataclasses.dataclass(frozen=True)
class Sight:
    """What was observed besides the load balancer's rows.

    :param timeout: seconds without a heartbeat after which Octavia fails an
                    amphora over; a bad operating status is tolerated as long.
    :param heard_ago: seconds since the last heartbeat of any amphora, None
                      for none.
    :param error_for: for how many seconds its operating status was seen to
                      be ERROR.
    """

    timeout: float
    heard_ago: float | None
    error_for: float


def is_worse(watched: aftermath_repo.Watched) -> bool:
    """Tell whether its operating status is ERROR and was not before."""
    return (watched.operating_status == compat.ERROR and
            watched.old_status not in (None, compat.ERROR))


def find_problem(watched: aftermath_repo.Watched,
                 sight: Sight) -> str | None:
    """Return what is wrong with a load balancer, None if it is well."""
    return (_find_broken(watched) or _find_replaced(watched) or
            _find_silent(watched, sight) or _find_worse(watched, sight))


def _is_member(watched: aftermath_repo.Watched) -> bool:
    """Tell whether its amphorae are members of a cluster."""
    return watched.provider == compat.CLUSTER_PROVIDER


def _find_broken(watched: aftermath_repo.Watched) -> str | None:
    for amphora in watched.amphorae:
        if amphora.status == compat.ERROR:
            return f'amphora {amphora.id} is in ERROR'
        if amphora.is_busy and not _is_member(watched):
            return f'amphora {amphora.id} is failed over again'
    return None


def _find_replaced(watched: aftermath_repo.Watched) -> str | None:
    if _is_member(watched):
        return None
    later = [amphora.id for amphora in watched.amphorae
             if amphora.created_at is not None and
             amphora.created_at > watched.finished_at]
    if later:
        return f'an amphora was failed over again, to {", ".join(later)}'
    there = {amphora.id for amphora in watched.amphorae}
    if watched.new_amphora_id not in {None, *there}:
        return f'amphora {watched.new_amphora_id} is gone'
    return None


def _find_silent(watched: aftermath_repo.Watched,
                 sight: Sight) -> str | None:
    if sight.heard_ago is None or sight.heard_ago > sight.timeout:
        # If no amphora at all is heard, the image is not the cause.
        return None
    for amphora in watched.amphorae:
        if amphora.silent_for is None or amphora.silent_for > sight.timeout:
            return (f'amphora {amphora.id} has sent no heartbeat for more '
                    f'than {sight.timeout:.0f} s')
    return None


def _find_worse(watched: aftermath_repo.Watched, sight: Sight) -> str | None:
    if is_worse(watched) and sight.error_for >= sight.timeout:
        return (f'its operating status, {watched.old_status} before, is '
                f'ERROR')
    return None

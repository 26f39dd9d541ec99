# SPDX-License-Identifier: Apache-2.0

"""Asks distributors for their state, and records it."""

import dataclasses
import datetime

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Questions before a distributor counts as silent.
_TRIES = 2
# The most letters of an error, and of a release in its column.
_DETAIL, _VERSION = 300, 64
# Seconds that a round with its other duties may take.
LONGEST_ROUND = 15
# Rounds that another controller may miss.
_MISSED_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of a distributor.

    :param problem: why it does not count, or None.
    :param versions: {id of a cluster: version in force}; None if it was not
                     asked.
    :param left: ids of clusters for whose VIP it was told to answer, and does
                 not, as it has heard another distributor announce it.
    :param expires_at: when the first of its certificates ends, seconds since
                       the epoch; None if it has none.
    :param is_full: whether it remembers no more connections, of any VIP or of
                    all, or its cache is full; None if that is not known.
    """

    problem: str | None = None
    software_version: str | None = None
    versions: dict[str, int] | None = None
    left: frozenset[str] = frozenset()
    expires_at: float | None = None
    is_full: bool | None = None


def ask(distributor, is_full=False):
    """Ask a distributor; its errors are in the answer.

    :param distributor: its client.
    :param is_full: whether to ask for its VIPs, too.
    """
    problem = None
    for _try in range(_TRIES):
        try:
            said = distributor.get_versions()
            status = distributor.get_status()
            if status['status'] != distributor_repo.ONLINE:
                # It may carry no traffic.
                return Answer(_show(status.get('error')) or
                              'it does not work')
            vips = distributor.list_vips() if is_full else None
            load = status['load']
            return Answer(
                is_full=bool(load['full'] or load['cache_full'] or
                             load['full_vips']) if load else None,
                software_version=_show(said['software_version'])[:_VERSION],
                versions=None if vips is None else {
                    one['id']: one['version'] for one in vips},
                left=frozenset(one['id'] for one in vips or ()
                               if one['has_left']),
                expires_at=min(map(float, status['certificates'].values()),
                               default=None))
        except exceptions.DistributorError as e:
            problem = str(e)
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            problem = (f'Its answer cannot be read ({type(e).__name__}): see '
                       f'whether this release can speak to its release')
    return Answer(problem)


def _show(said):
    """Return a distributor's own words, safe for a log."""
    return '' if said is None else ascii(
        ' '.join(str(said).split()))[1:-1][:_DETAIL]


def record(engine, row, answer):
    """Record what ask() returned, and log when a distributor changes."""
    if answer.problem:
        distributor_repo.set_status(engine, row.id, distributor_repo.OFFLINE)
        if row.status == distributor_repo.ONLINE or not row.last_seen:
            LOG.warning('The distributor %s is OFFLINE: %s', row.name,
                        answer.problem)
        return
    distributor_repo.set_status(engine, row.id, distributor_repo.ONLINE,
                                answer.software_version, answer.expires_at)
    if row.status != distributor_repo.ONLINE:
        LOG.info('The distributor %s is ONLINE%s', row.name,
                 f', software {answer.software_version}'
                 if answer.software_version else '')


def get_patience(interval):
    """Return how long ago a process that asks has heard a distributor.

    :param interval: seconds between two rounds.
    """
    return datetime.timedelta(
        seconds=_MISSED_ROUNDS * interval + LONGEST_ROUND)


class Recorder:
    """Records what one process hears of distributors, with every round.

    Several processes do so, and one may be cut off, which it learns only when
    another one contradicts it. So a silent distributor is OFFLINE at once;
    a process that was contradicted then leaves it ONLINE as long as another
    process reaches it.

    :param interval: seconds between two rounds.
    """

    def __init__(self, engine, interval):
        self._engine = engine
        self._patience = get_patience(interval)
        # {id of a distributor that was OFFLINE and that this process has not
        # reached since: whether another process reaches it}.
        self._unreached: dict[str, bool] = {}

    def record(self, row, answer):
        """Record whether a distributor answers, and log when that changes.

        :param row: its row, read before it was asked.
        """
        if not answer.problem:
            self._unreached.pop(row.id, None)
        elif self._is_contradicted(row):
            if not self._unreached[row.id]:
                LOG.warning('The distributor %s does not answer this '
                            'controller, but answers another one, and stays '
                            'ONLINE: %s', row.name, answer.problem)
            self._unreached[row.id] = True
            return
        else:
            self._unreached[row.id] = False
        record(self._engine, row, answer)

    def _is_contradicted(self, row):
        return (row.id in self._unreached and
                row.status == distributor_repo.ONLINE and
                row.last_seen is not None and
                row.now - row.last_seen < self._patience)

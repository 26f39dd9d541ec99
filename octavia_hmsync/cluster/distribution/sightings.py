# SPDX-License-Identifier: Apache-2.0

"""Asking distributors how they are, and recording it."""

import dataclasses
import datetime

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# How often one is asked before it counts as one that does not answer.
_TRIES = 2
# Letters: of what it says, and of what a column bears of its release.
_DETAIL, _VERSION = 300, 64
# Seconds that a look may take that has other things to do, too.
LONGEST_LOOK = 15
# Who else looks may come late, or miss one.
_MISSED_LOOKS = 3


@dataclasses.dataclass(frozen=True)
class Seen:
    """What a distributor said.

    :param problem: why it does not count, None if it does.
    :param software_version: what it is.
    :param versions: {id of a cluster: version in force}; None if it was not
                     asked.
    :param blind: ids of clusters whose members it could look at, and was not
                  told how.
    :param left: ids of clusters for whose VIP it was told to answer, and does
                 not, as it has heard another distributor announce it.
    :param expires_at: when the first of its certificates ends, seconds since
                       the epoch; None if it does not say.
    :param is_full: whether it remembers no more connections, of any VIP or of
                    all; None if it does not say.
    """

    problem: str | None = None
    software_version: str | None = None
    versions: dict[str, int] | None = None
    blind: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    expires_at: float | None = None
    is_full: bool | None = None


def ask(distributor, is_full=False):
    """Ask a distributor, without raising anything that it does wrong.

    :param distributor: its client.
    :param is_full: whether to ask which VIPs it has, too.
    :returns: a Seen.
    """
    problem = None
    for _try in range(_TRIES):
        try:
            said = distributor.get_versions()
            status = distributor.get_status()
            if status['status'] != distributor_repo.ONLINE:
                # Nobody there carries traffic for sure.
                return Seen(_show(status.get('error')) or
                            'it does not work')
            vips = distributor.list_vips() if is_full else None
            load = status.get('load')
            return Seen(
                is_full=bool(load['full'] or load['full_vips'])
                if load else None,
                software_version=_show(said['software_version'])[:_VERSION],
                versions=None if vips is None else {
                    one['id']: one['version'] for one in vips},
                # One that knows nothing of looks does not say.
                blind=frozenset(one['id'] for one in vips or ()
                                if one.get('looked_at') is False),
                left=frozenset(one['id'] for one in vips or ()
                               if one.get('has_left')),
                expires_at=min(map(float, (
                    status.get('certificates') or {}).values()),
                    default=None))
        except exceptions.DistributorError as e:
            problem = str(e)
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            problem = (f'It answers what cannot be read '
                       f'({type(e).__name__}): see whether its release is '
                       f'one that this one can speak to')
    return Seen(problem)


def _show(said):
    """Return a distributor's own words so that they can stand in a log."""
    return '' if said is None else ascii(
        ' '.join(str(said).split()))[1:-1][:_DETAIL]


def record(engine, row, seen):
    """Record whether a distributor answers, and log when that changes.

    :param engine: an SQLAlchemy engine.
    :param row: a cluster.db.distributor.Distributor.
    :param seen: what ask() returned.
    """
    if seen.problem:
        distributor_repo.set_status(engine, row.id, distributor_repo.OFFLINE)
        if row.status == distributor_repo.ONLINE or not row.last_seen:
            LOG.warning('The distributor %s is OFFLINE: %s', row.name,
                        seen.problem)
        return
    distributor_repo.set_status(engine, row.id, distributor_repo.ONLINE,
                                seen.software_version, seen.expires_at)
    if row.status != distributor_repo.ONLINE:
        LOG.info('The distributor %s is ONLINE%s', row.name,
                 f', software {seen.software_version}'
                 if seen.software_version else '')


class Recorder:
    """Records what one process sees of distributors, time and again.

    Any number of processes do, and one of them may be cut off. It does not
    know that before another one says the opposite: so what does not answer is
    OFFLINE at once, and who is contradicted leaves it ONLINE from then on, as
    long as somebody reaches it.

    :param engine: an SQLAlchemy engine.
    :param interval: seconds between two looks.
    """

    def __init__(self, engine, interval):
        self._engine = engine
        self._patience = datetime.timedelta(
            seconds=_MISSED_LOOKS * interval + LONGEST_LOOK)
        # {id of one that was OFFLINE, and that this process has not reached
        # since: whether somebody else is known to reach it}.
        self._unreached: dict[str, bool] = {}

    def record(self, row, seen):
        """Record whether a distributor answers, and log when that changes.

        :param row: a cluster.db.distributor.Distributor, read before it
                    was asked.
        :param seen: what ask() returned.
        """
        if not seen.problem:
            self._unreached.pop(row.id, None)
        elif self._is_contradicted(row):
            if not self._unreached[row.id]:
                LOG.warning('The distributor %s does not answer this '
                            'controller, and answers another one, so that it '
                            'stays ONLINE: %s', row.name, seen.problem)
            self._unreached[row.id] = True
            return
        else:
            self._unreached[row.id] = False
        record(self._engine, row, seen)

    def _is_contradicted(self, row):
        return (row.id in self._unreached and
                row.status == distributor_repo.ONLINE and
                row.last_seen is not None and
                row.now - row.last_seen < self._patience)

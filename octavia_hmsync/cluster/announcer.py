# SPDX-License-Identifier: Apache-2.0

"""Notifies once of what happened to clusters.

Workers, housekeepers, managers and commands change clusters, and some of them
know no message broker. Each records its changes in the database.
"""

import dataclasses

from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync.cluster import payloads
from octavia_hmsync import compat

# Seconds after which a change is not announced any more.
NEWS_FOR = 3600
# How many are sent in one pass.
LIMIT = 100

_KINDS = {
    news_repo.CREATED: payloads.ClusterCreated,
    news_repo.VIP_MOVED: payloads.ClusterVIPMoved,
    news_repo.MEMBER_ADDED: payloads.ClusterMemberAdded,
    news_repo.MEMBER_DRAINED: payloads.ClusterMemberDrained,
    news_repo.MEMBER_DEAD: payloads.ClusterMemberDead,
    news_repo.MEMBER_REPLACED: payloads.ClusterMemberReplaced,
    news_repo.DISTRIBUTOR_UP: payloads.DistributorUp,
    news_repo.DISTRIBUTOR_DOWN: payloads.DistributorDown,
}
_STATUSES = {
    compat.ONLINE: payloads.ClusterOnline,
    compat.DEGRADED: payloads.ClusterDegraded,
    compat.ERROR: payloads.ClusterError,
    compat.OFFLINE: payloads.ClusterOffline,
}


def make_payload(news):
    """Return the payload of a change, None if its kind is not known here.

    :param news: a db.news.News, perhaps written by another release.
    """
    payload_class = (_STATUSES.get(news.body.get('status'))
                     if news.kind == news_repo.STATUS
                     else _KINDS.get(news.kind))
    if payload_class is None:
        return None
    return payload_class(**{field.name: news.body.get(field.name)
                            for field in dataclasses.fields(payload_class)})


class ClusterAnnouncer:
    """Notifies of changes that have not been announced yet.

    :param notifier: a notifications.outbox.Outbox. While it is off nothing is
                     sent, and old changes are deleted.
    """

    def __init__(self, engine, notifier):
        self._engine = engine
        self._notifier = notifier

    def run_once(self):
        """Look once."""
        news_repo.forget(self._engine, NEWS_FOR)
        if not self._notifier.is_on:
            return
        while True:
            taken = news_repo.take(self._engine, LIMIT)
            for payload in filter(None, map(make_payload, taken)):
                self._notifier.send(payload)
            if len(taken) < LIMIT:
                return

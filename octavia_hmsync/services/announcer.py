# SPDX-License-Identifier: Apache-2.0

"""Notifies once of clusters, rollouts, replacements and orders.

Workers, housekeepers, managers and commands change them, and some of these
know no message broker. Each records its changes in the database.
"""

import dataclasses

from octavia_hmsync.cluster import payloads as cluster_payloads
from octavia_hmsync.db import news as news_repo
from octavia_hmsync.image import payloads as image_payloads
from octavia_hmsync.sync import payloads as sync_payloads

# Seconds after which a change is not announced any more.
NEWS_FOR = 3600
# How many are sent in one pass.
LIMIT = 100

_KINDS = {payload.EVENT_TYPE.removeprefix('octavia_hmsync.'): payload
          for payload in (*cluster_payloads.ALL, *image_payloads.ALL,
                          *sync_payloads.ALL)}


def make_payload(news):
    """Return the payload of a change, None for another release's kind."""
    payload_class = _KINDS.get(news.kind)
    return payload_class and payload_class(**{
        field.name: news.body.get(field.name)
        for field in dataclasses.fields(payload_class)})


class Announcer:
    """Notifies of changes; while its notifier is off, deletes old ones."""

    def __init__(self, engine, notifier):
        self._engine = engine
        self._notifier = notifier

    def run_once(self):
        news_repo.forget(self._engine, NEWS_FOR)
        if not self._notifier.is_on:
            return
        while True:
            taken = news_repo.take(self._engine, LIMIT)
            for payload in filter(None, map(make_payload, taken)):
                self._notifier.send(payload)
            if len(taken) < LIMIT:
                return

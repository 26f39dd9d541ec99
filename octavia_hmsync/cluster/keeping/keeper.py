# SPDX-License-Identifier: Apache-2.0

"""Takes up clusters whose worker died, and clusters that are not whole.

Each round has the clusters with something to do, those with something to do in
the last round, and a page of all clusters. The cost does not grow with the
number of clusters that are well.
"""

import itertools
import time

from oslo_log import log as logging

from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.keeping import upkeep
from octavia_hmsync.cluster.keeping import urgency
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.rules import load
from octavia_hmsync.cluster import work as work_
from octavia_hmsync import crew
from octavia_hmsync.db import api
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Clusters that one housekeeper works on at once.
AT_ONCE = 4
# Clusters whose urgent work (orders to distributors) is done at once.
URGENT_AT_ONCE = 16
# Seconds before a failed cluster is tried again; doubled each time.
_FIRST_PAUSE = 5
_LAST_PAUSE = 300
# Seconds after which an order that no worker has taken up counts as lost. A
# worker that gets the message later finds the order taken.
_ORPHAN_AGE = 120
# Clusters that a round has without a reason, in turn.
_PAGE = 100
# With more candidates than this, a round of all clusters costs less.
_MANY = 500
# Seconds for which a change of a cluster counts. A housekeeper that has not
# run for half of that reads all clusters, since it may have missed one.
_RECENT = 120


class Rounds:
    """Finds clusters for which there may be something to do.

    :param followers: names of managers that decide in each round.
    """

    def __init__(self, engine, followers=(), clock=time.monotonic):
        self._engine = engine
        self._followers = followers
        self._clock = clock
        self._looked = None
        self._known: set[str] = set()
        self._after = ''

    def look(self):
        """Return the clusters to look at.

        :returns: a list of cluster.db.due.Due, the longest waiting first.
        :raises DBError: if the database cannot be used.
        """
        now = self._clock()
        due = due_repo.get_due(self._engine, self._choose(now),
                               self._followers)
        self._known = {each.id for each in due}
        self._looked = now
        return due

    def _choose(self, now):
        """Return the ids of the clusters to look at, None for all."""
        if self._looked is None or now - self._looked > _RECENT / 2:
            return None
        page = due_repo.get_page(self._engine, self._after, _PAGE)
        self._after = page[-1] if len(page) == _PAGE else ''
        chosen = self._known.union(page, due_repo.get_candidates(
            self._engine, _RECENT, self._followers))
        return chosen if len(chosen) <= _MANY else None


class ClusterKeeper:
    """Takes up clusters, in a thread for each.

    Urgent work waits neither for a pause nor for slow work on the same
    cluster, in this process or another.

    :param context: a work.Context.
    :param wake: called without arguments when a cluster is done.
    :param make_upkeep: takes the context and the id of a cluster.
    :param make_urgency: takes the same.
    """

    def __init__(self, context, wake, clock=time.monotonic,
                 make_upkeep=upkeep.Upkeep, make_urgency=urgency.Urgency):
        self._context = context
        self._wake = wake
        self._clock = clock
        self._make_upkeep = make_upkeep
        self._make_urgency = make_urgency
        self._followers = managers.get_followers('FOLLOWS_LOAD')
        self._rounds = Rounds(context.engine, self._followers, clock)
        self._running: crew.Crew[str] = crew.Crew(
            'hmsync-cluster', self._on_end)
        self._urgent: crew.Crew[str] = crew.Crew(
            'hmsync-cluster-urgent', self._on_urgent_end)
        self._pauses: crew.Pauses[str] = crew.Pauses(
            _FIRST_PAUSE, _LAST_PAUSE, clock)
        # {id: what was known when that was last tried}
        self._news: dict[str, tuple] = {}
        # {id: (its turn, what was known)} of the last urgent attempt.
        self._urged: dict[str, tuple[int, tuple]] = {}
        self._turns = itertools.count()
        # Ids of load balancers that cannot be adopted; {id of a cluster: the
        # problem that was logged last}.
        self._hopeless: set[str] = set()
        self._said: dict[str, str] = {}
        self._are_waiting = False

    def run_once(self):
        """Begin the work that is due; raise DBError."""
        if self._context.claims.stopping.is_set():
            return
        if self._followers:
            load_repo.record(self._context.engine, load.find_measured(
                load_repo.scan(self._context.engine, self._followers)))
        orphans = due_repo.get_orphans(self._context.engine, _ORPHAN_AGE)
        self._hopeless &= {orphan.id for orphan in orphans}
        for orphan in orphans:
            self._adopt(orphan)
        due = self._rounds.look()
        self._forget_pauses({each.id: each for each in due})
        waiting, urgent = [], self._urgent.keys()
        for each in due:
            if self._may_begin(each):
                self._news[each.id] = each.news
                self._note_turn(each)
                self._running.begin(each.id, self._run, each.id)
            elif each.id not in urgent:
                waiting.append(each)
        self._begin_urgent(waiting)

    def _adopt(self, orphan):
        try:
            upkeep.adopt(self._context.conf, orphan)
        except Exception as e:
            # A load balancer that cannot be adopted must not stop the rest.
            if api.is_database_error(e):
                raise
            if orphan.id not in self._hopeless:
                self._hopeless.add(orphan.id)
                LOG.exception('Load balancer %s, which no worker took up:',
                              orphan.id)

    def _begin_urgent(self, waiting: list[due_repo.Due]) -> None:
        """Begin with clusters that changed, then the longest waiting ones."""
        waiting.sort(key=lambda due: (not self._is_news(due),
                                      self._urged.get(due.id, (-1,))[0]))
        # One that ends from here on wakes this up: it is not in the room.
        self._are_waiting = True
        room = max(0, URGENT_AT_ONCE - len(self._urgent.keys()))
        self._are_waiting = any(map(self._is_news, waiting[room:]))
        for each in waiting[:room]:
            self._note_turn(each)
            self._urgent.begin(each.id, self._call, self._make_urgency,
                               each.id)

    def _is_news(self, due):
        return due.id not in self._urged or (
            self._urged[due.id][1] != due.news)

    def _note_turn(self, due):
        self._urged[due.id] = next(self._turns), due.news

    def _forget_pauses(self, due):
        """Forget the pauses of clusters that are well or have changed.

        :param due: {id: Due}.
        """
        running = self._running.keys()
        self._pauses.keep(lambda key: key in running or (
            key in due and due[key].news == self._news.get(key)))
        self._news = {key: value for key, value in self._news.items()
                      if key in due or key in running}
        self._urged = {key: value for key, value in self._urged.items()
                       if key in due}
        for key in self._said.keys() - due.keys() - running:
            self._said.pop(key, None)

    def _may_begin(self, due):
        running = self._running.keys()
        return (due.is_free and due.id not in running and
                len(running) < AT_ONCE and self._pauses.is_over(due.id))

    def stop(self, timeout):
        """Stop running work at a point where another process can go on.

        :param timeout: seconds to wait; after them the claims lapse.
        """
        self._context.claims.stopping.set()
        deadline = time.monotonic() + timeout
        self._running.join(timeout)
        self._urgent.join(max(0, deadline - time.monotonic()))
        self._context.claims.end()

    def _run(self, cluster_id):
        is_done = self._call(self._make_upkeep, cluster_id)
        # A cluster that waits for something has not failed.
        self._pauses.note(cluster_id, is_done is not False)
        return is_done

    def _on_end(self, is_done):
        if is_done:
            self._wake()

    def _on_urgent_end(self, _result):
        if self._are_waiting:
            self._wake()

    def _call(self, make, cluster_id):
        try:
            result = make(self._context, cluster_id).run()
            self._said.pop(cluster_id, None)
            return result
        except Exception as e:
            self._say(cluster_id, e)
        return False

    def _say(self, cluster_id, error):
        """Log a problem once: urgent work is tried again all the time."""
        problem = f'{type(error).__name__}: {error}'
        if self._said.get(cluster_id) == problem:
            LOG.debug('Cluster %s, as before: %s', cluster_id, problem)
            return
        self._said[cluster_id] = problem
        if isinstance(error, exceptions.HMSyncException):
            LOG.warning('Cluster %s: %s', cluster_id, error)
        elif api.is_database_error(error):
            LOG.warning('Cluster %s is looked after again later: %s',
                        cluster_id, api.explain(error))
        else:
            LOG.exception('Cluster %s:', cluster_id)


def make(wake):
    """Return the ClusterKeeper of this process.

    :raises DatabaseUnavailable: if the database URL cannot be used.
    """
    keeper = ClusterKeeper(work_.get_context(), wake)
    # Now, so that the first failed member does not wait for it.
    distribution.prepare()
    return keeper

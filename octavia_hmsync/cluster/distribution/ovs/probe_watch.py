# SPDX-License-Identifier: Apache-2.0

"""Records the results of distributors' probes of members.

A thread for each distributor asks for news and waits for them; many
distributors share threads, and are asked in turn. Several controllers may do
so at once: they write the same rows.
"""

import heapq
import itertools
import threading
import time

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Seconds for which a distributor may wait for news: alone in a thread, and
# sharing one.
_WAIT, _SHORT_WAIT = 20, 2
# Seconds of pause after an early answer without news: too many clients wait
# at that distributor.
_PAUSE = 1
# Seconds before a silent distributor is asked again, doubled each time. Both
# are short: its old probes count again as soon as it answers other questions.
_FIRST_PAUSE, _LAST_PAUSE = 1, 5
# Seconds before one is that speaks another version of the API.
_OTHER_PAUSE = 60
# Of what a distributor says is wrong.
_LONGEST = 200
# Threads, at most.
_MOST = 64

_STATES = (probe_repo.UP, probe_repo.DOWN)
_NOTHING = ('UNKNOWN', 'GONE')


def read(news):
    """Read the news of a distributor. Pure.

    :returns: {(id of a cluster, id of an amphora or member): Result}, None
              instead of a Result if nothing is seen.
    :raises ValueError: if it cannot be read.
    """
    found = {}
    try:
        for one in news['probes']:
            state, error = one['state'], one.get('error')
            if state not in (*_STATES, *_NOTHING):
                raise ValueError(f'the state {str(state)[:_LONGEST]!a}')
            found[str(one['vip']), str(one['member'])] = (
                None if state in _NOTHING else probe_repo.Result(
                    state, None if error is None else
                    ascii(str(error))[1:-1][:_LONGEST]))
    except (KeyError, TypeError, AttributeError) as e:
        raise ValueError(f'{type(e).__name__}: {e}') from e
    return found


class Watcher:
    """Asks one distributor.

    :param client_of: returns the client for its URL.
    :param wake: called without arguments when something changed.
    """

    def __init__(self, engine, distributor, client_of, wake):
        self._engine = engine
        self.distributor = distributor
        self._client_of = client_of
        self._wake = wake
        self._run = None
        self._sequence = 0
        self._pause = _FIRST_PAUSE
        self._stopping = threading.Event()

    def stop(self):
        """Stop recording."""
        self._stopping.set()

    def hear(self, wait=_WAIT):
        """Ask once, and record what is new.

        :param wait: seconds for which the distributor may wait for news.
        :returns: seconds to wait before the next time.
        """
        name = self.distributor.name
        try:
            pause = self._hear(wait)
            self._pause = _FIRST_PAUSE
            return pause
        except exceptions.DistributorOtherVersion as e:
            LOG.debug('The distributor %s tells nothing of members: %s',
                      name, e)
            return _OTHER_PAUSE
        except exceptions.HMSyncException as e:
            # The distributor watch logs whether it answers.
            LOG.debug('The distributor %s was not heard: %s', name, e)
        except ValueError as e:
            LOG.warning('What the distributor %s sees of members cannot be '
                        'read (%s): see whether its release is one that this '
                        'one can speak to.', name, e)
            pause, self._pause = _OTHER_PAUSE, _FIRST_PAUSE
            return pause
        except Exception as e:
            # Ask for everything again, as this was not recorded.
            self._run = None
            if not api.is_database_error(e):
                LOG.exception('What the distributor %s sees of members was '
                              'not recorded. It is tried again in %s s.',
                              name, self._pause)
        pause, self._pause = self._pause, min(2 * self._pause, _LAST_PAUSE)
        return pause

    def _hear(self, wait):
        begun = time.monotonic()
        try:
            news = self._client_of(self.distributor.url).get_probes(
                self._run, self._sequence, 0 if self._run is None else wait)
            told = read(news)
            is_whole = bool(news['whole'])
            if not isinstance(news['run'], str) or (
                    type(news['sequence']) is not int):
                raise ValueError('its run or sequence is none')
        except (exceptions.DistributorOtherVersion, ValueError):
            # Its earlier probes may be out of date.
            probe_repo.forget(self._engine, self.distributor.id)
            self._run = None
            raise
        if self._stopping.is_set():
            return 0
        if self._record(told, is_whole):
            self._wake()
        self._run, self._sequence = news['run'], news['sequence']
        is_early = time.monotonic() - begun < _PAUSE
        return _PAUSE if is_early and (is_whole or not told) else 0

    def _record(self, told, is_whole):
        """Record what is seen; return whether anything changed."""
        distributor_id = self.distributor.id
        ids = self._find(told, is_whole)
        results = {ids[key]: result for key, result in told.items()
                   if key in ids}
        nothing = {member_id for member_id, result in results.items()
                   if result is None}
        if is_whole:
            nothing |= set(probe_repo.get_of_observer(
                self._engine, distributor_id)) - set(results)
        forgotten = probe_repo.forget(
            self._engine, distributor_id, nothing) if nothing else 0
        changed = probe_repo.record(self._engine, distributor_id, {
            member_id: result for member_id, result in results.items()
            if result})
        if changed or forgotten:
            LOG.info('The distributor %s sees %d members differently now',
                     self.distributor.name, len(changed) + forgotten)
        return bool(changed or forgotten)

    def _find(self, told, is_whole):
        """Return {(id of a cluster, id of its amphora): id of the member}."""
        if not told:
            return {}
        if is_whole:
            members = member_repo.get_all(self._engine)
        else:
            members = [member for cluster_id in sorted({key[0] for key
                                                        in told})
                       for member in member_repo.get_of_cluster(
                           self._engine, cluster_id)]
        return {(member.cluster_id, member.amphora_id or member.id):
                member.id for member in members}


class ProbeWatch:
    """Keeps a Watcher for each distributor; run_once() updates the list."""

    def __init__(self, engine, client_of, wake):
        self._engine = engine
        self._client_of = client_of
        self._wake = wake
        self._watchers = {}
        self._threads = []
        self._is_stopping = False
        # [(when, a unique number, Watcher)]; without Watchers that are asking.
        self._due = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def run_once(self):
        """Begin to ask new distributors, and stop asking gone ones.

        :raises DBError: if the database cannot be used.
        """
        rows = {row.id: row for row in
                distributor_repo.get_enabled(self._engine)}
        with self._changed:
            before = len(self._watchers)
            for key, watcher in list(self._watchers.items()):
                row = rows.get(key)
                if row is None or row.url != watcher.distributor.url:
                    watcher.stop()
                    del self._watchers[key]
            for key, row in sorted(rows.items()):
                if key not in self._watchers:
                    self._watchers[key] = Watcher(
                        self._engine, row, self._client_of, self._wake)
                    self._add(self._watchers[key], 0)
            self._start_threads()
            self._changed.notify_all()
        if len(rows) > max(before, _MOST):
            LOG.info('%d distributors share %d threads: it takes up to %d s '
                     'until their probes are recorded', len(rows), _MOST,
                     _SHORT_WAIT * -(-len(rows) // _MOST))

    def _add(self, watcher, pause):
        heapq.heappush(self._due, (time.monotonic() + pause,
                                   next(self._numbers), watcher))

    def _start_threads(self):
        self._threads = [each for each in self._threads if each.is_alive()]
        for number in range(len(self._threads),
                            min(len(self._watchers), _MOST)):
            thread = threading.Thread(target=self._loop, daemon=True,
                                      name=f'hmsync-probes-{number}')
            self._threads.append(thread)
            thread.start()

    def _loop(self):
        periodic.leave_signals_to_main_thread()
        while watcher := self._take():
            pause = watcher.hear(_WAIT if len(self._watchers) <= _MOST
                                 else _SHORT_WAIT)
            with self._changed:
                self._add(watcher, pause)
                self._changed.notify()

    def _take(self):
        """Wait until a Watcher is due, and return it; None at the end."""
        with self._changed:
            while not self._is_stopping:
                left = self._due[0][0] - time.monotonic() if self._due else 1
                if left > 0:
                    self._changed.wait(left)
                    continue
                watcher = heapq.heappop(self._due)[-1]
                if self._watchers.get(watcher.distributor.id) is watcher:
                    return watcher
        return None

    def stop(self, timeout=0):
        """Stop asking, and wait so many seconds for the threads."""
        with self._changed:
            self._is_stopping = True
            for watcher in self._watchers.values():
                watcher.stop()
            self._changed.notify_all()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))

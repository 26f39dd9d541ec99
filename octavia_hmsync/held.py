# SPDX-License-Identifier: Apache-2.0

"""The claims that this process holds on rows.

A claim lapses unless it is renewed. One thread renews all claims of a Claims,
as long as there are any; the claim owner checks before each step whether it
may go on. Claims of amphorae are not held so: one statement claims hundreds,
and conf.sync.check() ensures that their uploads end before the claims lapse.
"""

from collections import abc
import contextlib
import threading
import time
import typing

from oslo_log import log as logging
from oslo_utils import uuidutils
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# A claim is renewed so often before it lapses.
RENEWALS = 4
# Seconds between two looks at whether another owner has released a row.
_PAUSE = 0.5


def _make_lost(_key: str) -> Exception:
    return exceptions.Lost()


class Held:
    """A claim on one row.

    :param is_deletion: whether its owner deletes what the row is for.
    :param renewed_at: by the clock of the Claims.
    """

    def __init__(self, claims: 'Claims', key: str, owner: str,
                 is_deletion: bool, renewed_at: float) -> None:
        self.claims = claims
        self.key = key
        self.owner = owner
        self._is_deletion = is_deletion
        self._renewed_at = renewed_at
        self._is_lost = False
        self._is_unwanted = False

    def check(self) -> None:
        """Check that the owner may go on.

        :raises Lost: if another owner has claimed the row; or what the
                      Claims has for that.
        :raises Unwanted: if what the row is for is to be deleted, and this is
                          no deletion.
        :raises Stopped: if this process ends.
        """
        claims = self.claims
        if claims.clock() - self._renewed_at >= claims.expiry:
            # Another process has begun the work, or this one hung until now.
            self.renew()
        if self._is_lost:
            raise claims.lost(self.key)
        if self._is_unwanted:
            raise exceptions.Unwanted
        if claims.stopping.is_set():
            raise exceptions.Stopped

    def look(self) -> None:
        """Check, of what the database has now."""
        self.renew()
        self.check()

    def pause(self, seconds: float) -> None:
        """Wait, then check; a process that ends does not wait."""
        self.claims.stopping.wait(seconds)
        self.check()

    def renew(self) -> None:
        """Renew the claim; check() tells whether that was possible."""
        claims, began = self.claims, self.claims.clock()
        if not claims.repository.renew(claims.engine, self.key, self.owner,
                                       claims.expiry):
            self._is_lost = True
            return
        self._renewed_at = began
        self._is_unwanted = (not self._is_deletion and
                             claims.is_unwanted(self.key))

    def require(self, is_held: bool) -> None:
        """Take a statement's result, which needs the claim, or raise Lost."""
        if not is_held:
            self._is_lost = True
            raise self.claims.lost(self.key)

    def release(self) -> None:
        """Release the claim, even twice; without a database it lapses."""
        self.claims.forget(self)
        try:
            self.claims.repository.release(self.claims.engine, self.key,
                                           self.owner)
        except api.ERRORS as e:
            LOG.debug('The claim of %s was not released: %s', self.key, e)


class Claims:
    """The claims of this process on rows of one table.

    :param repository: has claim(), renew() and release(), as cluster.db.claim.
    :param is_unwanted: called with a key; tells whether what the row is for is
                        to be deleted.
    :param lost: called with the key of a row that another owner has claimed;
                 returns what is raised.
    :ivar stopping: set when this process ends.
    """

    def __init__(self, engine: sa.Engine, repository: typing.Any, host: str,
                 expiry: int, *,
                 is_unwanted: abc.Callable[[str], bool] = lambda key: False,
                 lost: abc.Callable[[str], Exception] = _make_lost,
                 clock: abc.Callable[[], float] = time.monotonic) -> None:
        self.engine = engine
        self.repository = repository
        self._host = host
        self.expiry = expiry
        self.is_unwanted = is_unwanted
        self.lost = lost
        self.clock = clock
        self.stopping = threading.Event()
        self._changed = threading.Condition()
        self._held: dict[str, Held] = {}
        self._thread: threading.Thread | None = None
        self._is_ended = False

    def make_owner(self) -> str:
        """Return an owner for one claim."""
        return f'{self._host}/{uuidutils.generate_uuid()}'

    def claim(self, key: str, *args: typing.Any,
              is_deletion: bool = False) -> Held | None:
        """Claim a row, with args for the repository; None if not possible."""
        owner = self.make_owner()
        if not self.repository.claim(self.engine, key, owner, self.expiry,
                                     *args):
            return None
        return self.hold(key, owner, is_deletion)

    def wait(self, key: str, patience: float, *args: typing.Any,
             is_deletion: bool = False) -> Held | None:
        """Claim a row; wait until another owner releases it.

        :param patience: seconds to wait. Then it returns None, also when this
                         process ends.
        """
        deadline = self.clock() + patience
        while True:
            held = self.claim(key, *args, is_deletion=is_deletion)
            if (held is not None or self.clock() >= deadline or
                    self.stopping.is_set()):
                return held
            self.stopping.wait(_PAUSE)

    @contextlib.contextmanager
    def held(self, key: str, patience: float = 0) -> abc.Iterator[Held]:
        """Claim a row, as wait(), release it in the end, or raise Lost."""
        held = self.wait(key, patience)
        if held is None:
            raise self.lost(key)
        try:
            yield held
        finally:
            held.release()

    def hold(self, key: str, owner: str, is_deletion: bool = False) -> Held:
        """Hold a claim that was made just now; renew it until release()."""
        return self._hold(Held(self, key, owner, is_deletion, self.clock()))

    def find(self, key: str, owner: str, is_deletion: bool = False) -> Held:
        """Return the claim of an owner, perhaps of another process."""
        return self._hold(
            Held(self, key, owner, is_deletion, float('-inf')))

    def _hold(self, held: Held) -> Held:
        with self._changed:
            if self._thread is None and not self._is_ended:
                self._thread = threading.Thread(
                    target=self._renew, name='hmsync-claims', daemon=True)
                self._thread.start()
            return self._held.setdefault(held.owner, held)

    def forget(self, held: Held) -> None:
        """Renew a claim no longer."""
        with self._changed:
            self._held.pop(held.owner, None)
            self._changed.notify_all()

    def end(self) -> None:
        """Renew no claim any more: they lapse, also if this process hangs."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _renew(self) -> None:
        periodic.leave_signals_to_main_thread()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_ended or not self._held,
                    self.expiry / RENEWALS)
                if self._is_ended or not self._held:
                    self._thread = None
                    return
                every = list(self._held.values())
            for held in every:
                try:
                    held.renew()
                except Exception as e:
                    # It lapses if this lasts.
                    if api.is_database_error(e):
                        LOG.debug('A claim was not renewed: %s', e)
                    else:
                        LOG.exception('A claim was not renewed:')

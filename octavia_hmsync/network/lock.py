# SPDX-License-Identifier: Apache-2.0

"""A management network is changed by one call at a time."""

import contextlib
import os
import time
import uuid

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo

# Of api_timeout: how many requests may time out between two renewals.
_REQUESTS = 6
_SHORTEST = 60
_PAUSE = 0.5


class Lock:
    """The claim of one call on the row of a management network.

    :ivar seconds: after which a claim lapses.
    """

    def __init__(self, conf, engine):
        opts = conf[network_conf.GROUP]
        self._engine = engine
        self._name = opts.network_name
        self.seconds = max(_SHORTEST, _REQUESTS * opts.api_timeout)
        self.owner = f'{conf.host} (pid {os.getpid()}, {uuid.uuid4().hex})'

    def _claim(self):
        return network_repo.claim(self._engine, self._name, self.owner,
                                  self.seconds)

    @contextlib.contextmanager
    def held(self):
        """Claim the row, and release it in the end.

        Waits for another owner, until the claim of a dead one has lapsed.

        :raises NotPossible: if another process goes on working.
        """
        deadline = time.monotonic() + self.seconds + 1
        while (other := self._claim()) is not None:
            if time.monotonic() >= deadline:
                raise exceptions.NotPossible(
                    f'{other} works on the management network {self._name}: '
                    f'wait for it to end, then try again.')
            time.sleep(_PAUSE)
        try:
            yield self
        finally:
            # What went wrong before matters more: a claim that cannot be
            # released lapses.
            with contextlib.suppress(*api.ERRORS):
                self.release()

    def try_unreconciled(self, interval):
        """Claim the row unless the network was looked at within an interval.

        :param interval: seconds.
        :returns: True if the caller must release().
        """
        return network_repo.claim_unreconciled(
            self._engine, self._name, self.owner, self.seconds, interval)

    def renew(self):
        """Renew the claim.

        :raises NotPossible: if it lapsed and another process has claimed it.
        """
        other = self._claim()
        if other is not None:
            raise exceptions.NotPossible(
                f'It took so long that {other} works on the management '
                f'network {self._name} now. Try again.')

    def renew_to_undo(self):
        """Renew the claim before an undo; go on without a database.

        :raises NotPossible: if another process has claimed it, and may use
                             what is to be undone.
        """
        with contextlib.suppress(*api.ERRORS):
            self.renew()

    def release(self):
        """Release the claim."""
        network_repo.release(self._engine, self._name, self.owner)

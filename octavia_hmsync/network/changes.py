# SPDX-License-Identifier: Apache-2.0

"""Changes in Neutron that are either all made or all taken back.

A management network is changed by one call at a time.
"""

import contextlib
import dataclasses
import typing

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import held
from octavia_hmsync.network.db import network as network_repo

# After so many failures to take a change back, no more are tried: each may
# take api_timeout.
_FAILURES = 2

# Of api_timeout: how many requests may time out between two renewals.
_REQUESTS = 6
_SHORTEST = 60


@dataclasses.dataclass
class _Change:
    """A change that was made, or may have been made without an answer.

    :param undo: called without arguments; returns whether there was anything
                 to undo.
    :param made_id: id of what was made, if an answer gave it.
    """

    what: str
    undo: typing.Callable
    inside: str | None
    made_id: str | None = None


class Changes:
    """The changes that one call makes in Neutron.

    :param before: called without arguments before each change; any exception
                   prevents the change and is raised.
    :param before_undo: called likewise before a change is taken back; an
                        HMSyncException prevents that.
    """

    def __init__(self, conf, dry_run=False, before=lambda: None,
                 before_undo=lambda: None):
        self._conf = conf
        self._before = before
        self._before_undo = before_undo
        self.dry_run = dry_run
        self._changes = []
        # Descriptions, in the order in which they were done.
        self.done = []

    def make(self, what, create, delete, find, inside=None):
        """Make something that Neutron gives an id.

        :param find: called without arguments if no answer came; returns the
                     SDK resources that this call may have made.
        :returns: what create() returns; None in a dry run.
        :raises CloudRefused: if Neutron says no.
        :raises CloudUnavailable: if it does not answer.
        """
        if self.dry_run:
            self.done.append(f'create {what}')
            return None
        made: list[typing.Any] = []

        def undo():
            found = made or list(find())
            for resource in found:
                delete(resource.id)
            return bool(found)

        change = self._begin(what, undo, inside)
        try:
            with cloud.reported(self._conf, f'create the {what}'):
                resource = create()
                if not resource.id:
                    raise sdk_exc.InvalidResponse('an answer without an id')
                made.append(resource)
        except exceptions.CloudRefused:
            self._changes.remove(change)
            raise
        change.made_id = resource.id
        change.what = f'{what} ({resource.id})'
        self.done.append(f'create {change.what}')
        return resource

    def change(self, what, function, undo=None):
        """Change something that exists.

        :param what: description, a verb first: 'rename the network net1'.
        :param undo: called without arguments to take it back; without it the
                     change stays in any case.
        :raises CloudRefused: if Neutron says no.
        :raises CloudUnavailable: if it does not answer.
        """
        if not self.dry_run:
            if undo:
                self._begin(what, lambda: undo() or True)
            else:
                self._before()
            with cloud.reported(self._conf, what):
                function()
        self.done.append(what)

    def _begin(self, what, undo, inside=None):
        # Recorded before the request, as its answer may get lost.
        self._before()
        change = _Change(what, undo, inside)
        self._changes.append(change)
        return change

    def take_back_one(self, resource_id):
        """Undo that this call has made something, and what is in it.

        Does nothing if this call has not made it.

        :raises CloudRefused: if Neutron says no.
        :raises CloudUnavailable: if it does not answer.
        """
        for change in self._changes[::-1]:
            if resource_id in (change.made_id, change.inside):
                with cloud.reported(self._conf, f'undo: {change.what}'):
                    change.undo()
                self._changes.remove(change)
                self.done.remove(f'create {change.what}')

    def take_back(self):
        """Undo what this call has done, in reverse order.

        :returns: a line that names what is left, None if nothing is.
        """
        left: list[str] = []
        uncertain: list[str] = []
        reason = None
        while self._changes:
            change = self._changes.pop()
            if len(left) >= _FAILURES:
                left.append(change.what)
                continue
            try:
                self._before_undo()
                with cloud.reported(self._conf, f'undo: {change.what}'):
                    if not change.undo():
                        uncertain.append(change.what)
            except exceptions.HMSyncException as e:
                left.append(change.what)
                reason = reason or e
        self.done = []
        if left:
            return (f'It could not take back: {", ".join(left)}. {reason} '
                    f'Run the command again later, or "octavia-hmsync '
                    f'network delete": both find it.')
        if uncertain:
            return ('Of ' + ', '.join(uncertain) + ' no answer came, and '
                    'nothing is to be seen. Should it come late, the next '
                    '"octavia-hmsync network ensure" finds it.')
        return None


def make_claims(conf, engine):
    """Return claims on networks; they raise NotPossible if not possible."""
    def make_busy(name):
        return exceptions.NotPossible(
            f'{network_repo.get_owner(engine, name) or "Another process"} '
            f'works on the management network {name}: wait for it to end, '
            f'then try again.')

    return held.Claims(
        engine, network_repo, conf.host,
        max(_SHORTEST, _REQUESTS * conf[network_conf.GROUP].api_timeout),
        lost=make_busy)


def hold(conf, engine):
    """Claim the management network, and release it in the end.

    Waits for another owner, until the claim of a dead one has lapsed.

    :raises NotPossible: if another process goes on working.
    """
    claims = make_claims(conf, engine)
    return claims.held(conf[network_conf.GROUP].network_name,
                       claims.expiry + 1)


def look_to_undo(claim):
    """Look whether a claim is held before an undo; go on without a database.

    :raises NotPossible: if another process has claimed the network, and may
                         use what is to be undone.
    """
    with contextlib.suppress(*api.ERRORS):
        claim.look()

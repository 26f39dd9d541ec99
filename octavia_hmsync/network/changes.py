# SPDX-License-Identifier: Apache-2.0

"""Changes in Neutron that are all made, or taken back again."""

import dataclasses
import typing

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync import exceptions


# After so many that cannot be taken back the others are not tried: each may
# take api_timeout.
_FAILURES = 2


@dataclasses.dataclass
class _Change:
    """Something that was done, or of which no answer came.

    :param what: it, in words.
    :param undo: called without arguments; returns whether there was anything
                 to undo.
    :param inside: id of what it is a part of, if it is.
    :param made_id: id of what was made, if an answer told it.
    """

    what: str
    undo: typing.Callable
    inside: str | None
    made_id: str | None = None


class Changes:
    """What one call changes in Neutron.

    :param conf: the oslo.config object of the connection.
    :param dry_run: only say what would be done.
    :param before: called without arguments before each of them; what it
                   raises is raised in its place.
    :param before_undo: the same before each of them is taken back; it is not,
                        if that raises an HMSyncException.
    """

    def __init__(self, conf, dry_run=False, before=lambda: None,
                 before_undo=lambda: None):
        self._conf = conf
        self._before = before
        self._before_undo = before_undo
        self.dry_run = dry_run
        self._changes = []
        # In words, in the order in which it was done.
        self.done = []

    def make(self, what, create, delete, find, inside=None):
        """Make something that Neutron gives an id.

        :param what: it, in words: 'network net1'.
        :param create: called without arguments, returns the SDK resource.
        :param delete: called with an id to take it back.
        :param find: called without arguments to look, if no answer came, for
                     what this call may have made; returns SDK resources.
        :param inside: id of what it is a part of, if it is.
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
        """Change something that is there.

        :param what: what is done, a verb first: 'rename the network net1'.
        :param function: called without arguments, does it.
        :param undo: called without arguments to take it back; without one it
                     stays done whatever happens later.
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
        # Before the request: its answer may be what gets lost.
        self._before()
        change = _Change(what, undo, inside)
        self._changes.append(change)
        return change

    def take_back_one(self, resource_id):
        """Undo that this call has made something, and what is in it.

        Nothing happens if it has not.

        :param resource_id: its id.
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
        """Undo what this call has done, the last first.

        :returns: a line that says what is left of it, None if nothing is.
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

# SPDX-License-Identifier: Apache-2.0

"""What a distributor does for a document: remembers it, then puts it in force.

What is remembered is the truth; the data plane follows it, at once or, where
Open vSwitch does not work just now, as soon as it does (see restore.py).
"""

from collections import abc
import contextlib
import dataclasses
import threading
import time
import typing

from oslo_log import log as logging

from octavia_hmsync.distributor import backend as backend_
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import judgement
from octavia_hmsync.distributor import locks
from octavia_hmsync.distributor import store
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds that a request waits for another one for the same VIP: less than
# what controllers wait for an answer.
_LOCK_TIMEOUT = 3
# Seconds for which a deletion is remembered: no request takes longer to come.
DELETION_KEPT = 86400


@dataclasses.dataclass(frozen=True)
class Summary:
    """One VIP in a list.

    :ivar document: None for a stray: of it the node has flows alone.
    :ivar is_in_force: whether the data plane does what the document says.
    :ivar error: why not, if that is known.
    :ivar has_left: whether another distributor answers for it by now,
                    whatever the document says.
    """

    id: str
    document: doc.Document | None
    is_in_force: bool
    error: str | None
    has_left: bool = False


class Vips:
    """The VIPs of a distributor. Threads may share it.

    :ivar backend: the data plane.
    :param is_down: tells of a VIP and a member, by id, whether probes find its
                    front end DOWN.
    :raises StoreFailed: if nothing can be read.
    """

    def __init__(self, kept: store.Store, backend: backend_.Backend,
                 clock: abc.Callable[[], float] = time.time,
                 is_down: abc.Callable[[str, str], bool] = lambda *_: False
                 ) -> None:
        self._is_down = is_down
        self._store = kept
        self.backend = backend
        self._clock = clock
        self._locks = locks.Locks()
        self._guard = threading.Lock()
        self._entries = kept.load()
        self._unread = set(kept.list_set_aside()) - set(self._entries)
        # Why the data plane does not follow an entry, by VIP.
        self._pending: dict[str, str] = dict.fromkeys(
            self._entries, 'not checked yet since the start')
        self._stray: set[str] = set()
        # What is done without being told, and of which VIPs it is not yet.
        self._own: dict[str, judgement.Own] = {
            vip_id: judgement.Own(entry.document.version, True)
            for vip_id, entry in self._entries.items()
            if isinstance(entry, store.Vip) and entry.has_left}
        self._wanted: set[str] = set()

    def put(self, vip_id: str, document: doc.Document) -> bool:
        """Put a document in force. Again, it does nothing.

        :returns: whether it was not in force before.
        :raises VersionConflict: if it is not newer than what is there.
        :raises VswitchUnavailable: if it is remembered, but not in force.
        :raises StoreFailed: if it cannot be remembered; nothing is changed.
        :raises VipBusy: if others change it meanwhile.
        """
        with self._hold(vip_id):
            entry = self._entries.get(vip_id)
            before = entry if isinstance(entry, store.Vip) else None
            if isinstance(entry, store.Deletion):
                _check_not_deleted(document, entry)
            is_due = doc.is_due(document,
                                before.document if before else None)
            if not is_due and vip_id not in self._pending:
                return False
            if is_due:
                LOG.info('%s', _describe(vip_id, document, before))
            elif before:
                # It may know more than what came.
                document = before.document
            self._follow(vip_id, document, before)
            return True

    def _follow(self, vip_id: str, document: doc.Document,
                before: store.Vip | None) -> None:
        now = self._clock()
        with self._guard:
            self._wanted.discard(vip_id)
            own = self._own.get(vip_id)
            if own and own.version != document.version:
                # A controller is there, and knows better.
                del self._own[vip_id]
                own = None
        adapted = judgement.adapt(document, own)
        vip = store.Vip(document, self.backend.advance(
            adapted, before.transition if before else None, now),
            bool(own and own.has_left))
        if vip != self._entries.get(vip_id):
            self._store.save(vip_id, vip)
            with self._guard:
                self._entries[vip_id] = vip
                self._unread.discard(vip_id)
                self._stray.discard(vip_id)

        def keep(transition: dict[str, typing.Any]) -> None:
            known = dataclasses.replace(vip, transition=transition)
            self._store.save(vip_id, known)
            with self._guard:
                self._entries[vip_id] = known

        with self._following(vip_id):
            self.backend.apply(
                vip_id, adapted, vip.transition, now, keep, down={
                    member.mac for member in adapted.members
                    if member.mac and self._is_down(vip_id, member.id)})

    def leave(self, vip_id: str, version: int) -> None:
        """Answer for a VIP no more, which another distributor has announced.

        What arrives is forwarded as before. That lasts until a newer version
        comes, over a restart, too.

        :param version: that of the document that says otherwise.
        """
        self._want(vip_id, version, has_left=True)

    def leave_out(self, vip_id: str, version: int,
                  member_ids: abc.Collection[str]) -> None:
        """Send nothing new to some members, until a newer version comes.

        :param version: that of the document that says otherwise.
        :param member_ids: of those; none to go by the document again.
        """
        self._want(vip_id, version, left_out=frozenset(member_ids))

    def _want(self, vip_id: str, version: int, **changes: typing.Any) -> None:
        with self._guard:
            entry = self._entries.get(vip_id)
            if (not isinstance(entry, store.Vip) or
                    entry.document.version != version):
                return
            before = self._own.get(vip_id)
            if before is None or before.version != version:
                before = judgement.Own(version)
            after = dataclasses.replace(before, **changes)
            if after != before:
                self._own[vip_id] = after
                self._wanted.add(vip_id)

    def get_transition(self, vip_id: str) -> dict[str, typing.Any]:
        """Return where a VIP stands between two lists of members.

        :returns: as schemas.TRANSITION has it.
        :raises UnknownVip: if there is none with a document.
        :raises VswitchUnavailable: if it is not known what is remembered.
        """
        with self._guard:
            entry = self._entries.get(vip_id)
        if not isinstance(entry, store.Vip) or entry.transition is None:
            raise exceptions.UnknownVip(
                f'the VIP {vip_id} has no document; send it anew')
        # What is pinned while this is read is in a mapping that is shared.
        shared = self.backend.share(entry.transition, self._clock())
        return {'version': entry.document.version, **shared,
                'pins': self.backend.read_pins(vip_id)}

    def adopt(self, vip_id: str, shared: dict[str, typing.Any]) -> bool:
        """Stand by with what the active distributor has of a VIP.

        :param shared: what get_transition() returned there.
        :returns: whether it had something else.
        :raises VersionConflict: if it is of another version, or this
                                 distributor is the active one.
        :raises UnknownVip, VswitchUnavailable, StoreFailed, VipBusy: as put()
                                                                      does.
        """
        with self._hold(vip_id):
            entry = self._entries.get(vip_id)
            if not isinstance(entry, store.Vip) or entry.transition is None:
                raise exceptions.UnknownVip(
                    f'the VIP {vip_id} has no document; send it anew')
            document = entry.document
            if document.active or document.version != shared['version']:
                raise exceptions.VersionConflict(
                    f'version {document.version} is in force, '
                    f'{"active" if document.active else "standing by"}: the '
                    f'transition of version {shared["version"]} is for who '
                    f'stands by with that', document.version)
            # Before a mapping is forgotten.
            self.backend.take_pins(vip_id, document, shared.get('pins') or [])
            adopted = self.backend.adopt(
                document, entry.transition, shared, self._clock())
            if adopted == entry.transition:
                return False
            self._follow(vip_id, document, store.Vip(document, adopted))
            return True

    def delete(self, vip_id: str, version: int | None = None) -> bool:
        """Forget a VIP, and remove all there is of it. Again does nothing.

        :param version: that of the deletion, see Client.delete_vip().
        :returns: whether there was something.
        :raises VersionConflict, VswitchUnavailable, StoreFailed, VipBusy: as
                 put() does.
        """
        with self._hold(vip_id):
            entry = self._entries.get(vip_id)
            there = (isinstance(entry, store.Vip) or
                     vip_id in self._pending or vip_id in self._unread or
                     vip_id in self._stray)
            if isinstance(entry, store.Vip):
                in_force = entry.document.version
                if version is not None and version < in_force:
                    raise exceptions.VersionConflict(
                        f'the deletion of version {version} came too late: '
                        f'version {in_force} is in force', in_force)
                LOG.info('VIP %s: deleted.', vip_id)
            elif (isinstance(entry, store.Deletion) and
                  (version is None or version <= (entry.version or 0))):
                version = entry.version
            if there or version is not None:
                self._bury(vip_id, store.Deletion(version, self._clock()))
            elif entry is None:
                return self.backend.remove(vip_id)
            with self._following(vip_id):
                removed = self.backend.remove(vip_id)
            return there or removed

    def _bury(self, vip_id: str, deletion: store.Deletion) -> None:
        self._store.save(vip_id, deletion)
        with self._guard:
            self._entries[vip_id] = deletion
            self._own.pop(vip_id, None)
            self._wanted.discard(vip_id)
            self._unread.discard(vip_id)
            self._stray.discard(vip_id)

    def get(self, vip_id: str) -> Summary:
        """Return one VIP; raise UnknownVip if there is none."""
        with self._guard:
            summary = self._summarize(vip_id)
        if summary is None:
            raise exceptions.UnknownVip(f'there is no VIP {vip_id}')
        return summary

    def list_all(self) -> list[Summary]:
        """Return all VIPs, by id, strays, too."""
        with self._guard:
            found = [self._summarize(vip_id) for vip_id in sorted(
                {*self._entries, *self._unread, *self._stray})]
        return [summary for summary in found if summary]

    def _summarize(self, vip_id: str) -> Summary | None:
        entry = self._entries.get(vip_id)
        if isinstance(entry, store.Vip):
            own = self._own.get(vip_id)
            return Summary(vip_id, entry.document,
                           vip_id not in self._pending,
                           self._pending.get(vip_id),
                           bool(own and own.has_left))
        if vip_id in self._unread:
            return Summary(vip_id, None, False,
                           'what was remembered of it cannot be read')
        if vip_id in self._stray:
            return Summary(vip_id, None, False,
                           'Open vSwitch has it, and it is not remembered')
        return None

    def list_probed(self) -> dict[str, tuple[doc.Document, bool]]:
        """Return {id: (document, is it in force)} of VIPs to be probed."""
        with self._guard:
            return {vip_id: (entry.document, vip_id not in self._pending)
                    for vip_id, entry in self._entries.items()
                    if isinstance(entry, store.Vip) and entry.document.probe}

    def describe_change(self, vip_id: str) -> dict[str, typing.Any] | None:
        """Return the backend's describe(); None if no change is under way."""
        with self._guard:
            entry = self._entries.get(vip_id)
        if not isinstance(entry, store.Vip) or entry.transition is None:
            return None
        return self.backend.describe(entry.transition)

    def read_counters(self, vip_id: str,
                      document: doc.Document) -> dict[str, typing.Any]:
        """Return what the backend counted for a VIP.

        :raises VswitchUnavailable: if it does not tell.
        """
        return self.backend.read_counters(
            vip_id, [member.mac for member in document.members if member.mac])

    def read_traffic(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return what was sent to the members of all VIPs.

        :returns: {id of a VIP: {id of a member: packets and bytes}}, of VIPs
                  that are in force.
        :raises VswitchUnavailable: if the backend does not tell.
        """
        found = {}
        for vip in self.list_all():
            if vip.document is None or not vip.is_in_force:
                continue
            macs = {member.mac: member.id for member in vip.document.members
                    if member.mac}
            found[vip.id] = {
                macs[mac]: sent for mac, sent in self.backend.read_traffic(
                    vip.id, list(macs)).items()}
        return found

    # What restore.py does, again and again.

    def mark_lost(self) -> abc.Collection[str]:
        """Note whose flows are gone; return ids that counted as in force."""
        found = self.backend.has_lost_flows()
        with self._guard:
            lost = [vip_id for vip_id in found
                    if vip_id not in self._pending and
                    isinstance(self._entries.get(vip_id), store.Vip)]
            for vip_id in lost:
                self._pending[vip_id] = 'its flows were gone'
        return lost

    def find_strays(self) -> list[str]:
        """Note the strays: parts of VIPs without a document.

        They are left alone: a controller tells whether they are needed.

        :returns: the ids of new ones.
        """
        there = set(self.backend.list_vips())
        with self._guard:
            strays = there - set(self._entries) - self._unread
            new = strays - self._stray
            self._stray = strays
        return sorted(new)

    def list_due(self) -> list[str]:
        """Return the ids of VIPs that are due to be put in force.

        VIPs that this distributor answers for come first.
        """
        now = self._clock()
        with self._guard:
            entries = list(self._entries.items())
            pending = {*self._pending, *self._wanted}
        entries.sort(key=lambda item: (not item[1].is_active, item[0]))
        return [vip_id for vip_id, entry in entries
                if vip_id in pending or self._has_to_go_on(entry, now)]

    def _has_to_go_on(self, entry: store.Entry, now: float) -> bool:
        if isinstance(entry, store.Deletion):
            return now - entry.at > DELETION_KEPT
        return entry.transition is not None and self.backend.is_due(
            entry.document, entry.transition, now)

    def follow(self, vip_id: str) -> None:
        """Put in force what is remembered of a VIP; errors as of put()."""
        with self._hold(vip_id):
            entry = self._entries.get(vip_id)
            if isinstance(entry, store.Vip):
                self._follow(vip_id, entry.document, entry)
            elif isinstance(entry, store.Deletion):
                if vip_id in self._pending:
                    with self._following(vip_id):
                        self.backend.remove(vip_id)
                if self._clock() - entry.at > DELETION_KEPT:
                    self._store.forget(vip_id)
                    with self._guard:
                        del self._entries[vip_id]

    @contextlib.contextmanager
    def _hold(self, vip_id: str) -> abc.Iterator[None]:
        with self._locks.hold(vip_id, _LOCK_TIMEOUT) as taken:
            if not taken:
                raise exceptions.VipBusy(
                    f'the VIP {vip_id} is being changed by another request: '
                    f'try again')
            yield

    @contextlib.contextmanager
    def _following(self, vip_id: str) -> abc.Iterator[None]:
        """Note that the data plane does not follow, unless it comes to do."""
        with self._guard:
            self._pending[vip_id] = 'on its way'
        try:
            yield
        except Exception as e:
            with self._guard:
                self._pending[vip_id] = str(e)
            raise
        with self._guard:
            self._pending.pop(vip_id, None)


def _check_not_deleted(document: doc.Document,
                       deletion: store.Deletion) -> None:
    if deletion.version is not None and document.version <= deletion.version:
        raise exceptions.VersionConflict(
            f'version {document.version} came too late: the VIP was deleted '
            f'with version {deletion.version}', deletion.version)


def _describe(vip_id: str, document: doc.Document,
              before: store.Vip | None) -> str:
    states = [member.state for member in document.members]
    counted = ', '.join(f'{states.count(state)} {state}'
                        for state in (doc.ACTIVE, doc.DRAINING, doc.DEAD)
                        if state in states)
    role = 'answers' if document.active else 'stands by'
    since = (f'after version {before.document.version}' if before
             else 'new here')
    return (f'VIP {vip_id}: version {document.version} ({since}), {role} for '
            f'{", ".join(document.addresses)}, members: '
            f'{counted or "none"}.')

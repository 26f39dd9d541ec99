# SPDX-License-Identifier: Apache-2.0

"""What a distributor remembers, on the disk of its node.

One file for each VIP: what is in force, or that it was deleted. A file is
replaced as a whole, so that a process that dies leaves the one or the other.
"""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import re
import time
import typing

from oslo_log import log as logging

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import schemas
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

_FORMAT = 1
_LOCK = 'lock'
_NAME = re.compile(f'({schemas.UUID[1:-1]})' r'\.json')
_ASIDE = re.compile(f'({schemas.UUID[1:-1]})' r'\.json\.corrupt')
_UNFINISHED = '.new'
# Seconds for the process of before to end, which may be in a call of Open
# vSwitch.
_LOCK_TIMEOUT = 30


@dataclasses.dataclass(frozen=True)
class Vip:
    """A VIP that is to be served.

    :ivar transition: what the data plane remembers of it, a dict of JSON.
    :ivar has_left: whether another distributor answers for it, whatever the
                    document says.
    """

    document: doc.Document
    transition: dict[str, typing.Any] | None = None
    has_left: bool = False

    @property
    def is_active(self) -> bool:
        """Whether this distributor answers for it."""
        return self.document.active and not self.has_left

    def to_dict(self) -> dict[str, typing.Any]:
        return {'document': self.document.to_dict(),
                'transition': self.transition,
                **({'has_left': True} if self.has_left else {})}


@dataclasses.dataclass(frozen=True)
class Deletion:
    """A VIP that was deleted.

    :ivar version: up to which documents come too late; None if any is taken.
    :ivar at: when, in seconds since the epoch.
    """

    version: int | None
    at: float
    is_active: typing.ClassVar[bool] = False

    def to_dict(self) -> dict[str, typing.Any]:
        return {'deleted': {'version': self.version, 'at': self.at}}


Entry = Vip | Deletion


class Store:
    """The directory with the files. One process at a time may have it.

    :param path: of the directory, which is made where it is missing.
    :raises InvalidConfiguration: if it cannot be used.
    :raises StoreBusy: if another process has it.
    """

    def __init__(self, path: str, timeout: float = _LOCK_TIMEOUT) -> None:
        self.path = path
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
            self._lock = os.open(os.path.join(path, _LOCK),
                                 os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise exceptions.InvalidConfiguration(
                f'[hmsync_distributor] state_path = {path} cannot be used: '
                f'{e.strerror}. The user of this service has to be able to '
                f'write there.') from e
        self._take(timeout)

    def _take(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as e:
                if time.monotonic() > deadline:
                    os.close(self._lock)
                    raise exceptions.StoreBusy(
                        f'Another process has {self.path}: two distributors '
                        f'on one node need [hmsync_distributor] state_path '
                        f'to be different, and bridges of their own.') from e
            time.sleep(0.1)

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)

    def load(self) -> dict[str, Entry]:
        """Read all files. One that cannot be read is set aside, and said.

        :returns: {id of the VIP: Vip or Deletion}.
        :raises StoreFailed: if the directory cannot be read.
        """
        entries: dict[str, Entry] = {}
        with self._reported('read'):
            names = sorted(os.listdir(self.path))
        for name in names:
            if name.endswith(_UNFINISHED):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.path, name))
            elif match := _NAME.fullmatch(name):
                entry = self._read(name)
                if entry is not None:
                    entries[match[1]] = entry
        return entries

    def list_set_aside(self) -> list[str]:
        """Return the ids of VIPs whose file could not be read."""
        with self._reported('read'):
            found = map(_ASIDE.fullmatch, os.listdir(self.path))
        return sorted(match[1] for match in found if match)

    def save(self, vip_id: str, entry: Entry) -> None:
        """Remember a VIP, or its deletion, for good; raise StoreFailed."""
        path = self._path(vip_id)
        content = json.dumps({'format': _FORMAT, 'id': vip_id,
                              **entry.to_dict()}).encode()
        with self._reported('write'):
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                with os.fdopen(os.open(path + _UNFINISHED, flags, 0o600),
                               'wb') as new:
                    new.write(content)
                    new.flush()
                    os.fsync(new.fileno())
                os.rename(path + _UNFINISHED, path)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(path + _UNFINISHED)
                raise
            self._sync()
            # The file that could not be read is of no use any more.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + '.corrupt')

    def forget(self, vip_id: str) -> None:
        """Remove all that is remembered of a VIP; none is no error.

        :raises StoreFailed: if that cannot be done.
        """
        with self._reported('write'):
            for path in (self._path(vip_id), self._path(vip_id) + '.corrupt'):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            self._sync()

    def _path(self, vip_id: str) -> str:
        return os.path.join(self.path, f'{vip_id}.json')

    def _sync(self) -> None:
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        except OSError as e:
            # Some file systems cannot; what they have is all there is.
            if e.errno != errno.EINVAL:
                raise
        finally:
            os.close(directory)

    def _read(self, name: str) -> Entry | None:
        path = os.path.join(self.path, name)
        try:
            with open(path, 'rb') as content:
                raw = json.load(content)
            return _parse(raw, name.removesuffix('.json'))
        except (ValueError, RecursionError, exceptions.InvalidDocument) as e:
            reason = ' '.join(str(e).split())
        except OSError as e:
            reason = e.strerror or str(e)
        LOG.warning(
            'What this distributor remembered of the VIP %s cannot be read '
            '(%s): %s.corrupt. Its flows stay as they are until a controller '
            'sends it anew.', name.removesuffix('.json'), reason, path)
        with contextlib.suppress(OSError):
            os.rename(path, f'{path}.corrupt')
        return None

    @contextlib.contextmanager
    def _reported(self, action: str) -> typing.Iterator[None]:
        try:
            yield
        except OSError as e:
            raise exceptions.StoreFailed(
                f'{self.path} cannot be {_DONE[action]}: '
                f'{e.strerror}') from e


_DONE = {'read': 'read', 'write': 'written to'}


def _parse(raw: object, vip_id: str) -> Entry:
    if not isinstance(raw, dict) or raw.get('id') != vip_id:
        raise exceptions.InvalidDocument('it is not that of this VIP')
    if raw.get('format') != _FORMAT:
        raise exceptions.InvalidDocument(
            f'its format {doc.show(raw.get("format"))} is not {_FORMAT}')
    if 'deleted' in raw:
        deleted = raw['deleted']
        try:
            version = deleted['version']
            return Deletion(
                None if version is None else doc.check_version(version),
                float(deleted['at']))
        except (KeyError, TypeError) as e:
            raise exceptions.InvalidDocument('its deletion is none') from e
    transition = raw.get('transition')
    if not isinstance(transition, dict | None):
        raise exceptions.InvalidDocument('its transition is none')
    return Vip(doc.parse(raw.get('document')), transition,
               raw.get('has_left') is True)

# SPDX-License-Identifier: Apache-2.0

"""Who holds a VIP: the amphorae that have the address, and since when.

The kernel tells of each change of an address, so nothing is missed between
two looks.
"""

import dataclasses
import datetime
import re
import subprocess
import threading
import time

import fixtures

from tests.cloud import waiting

# What is there already is told too; once again does no harm. It ends with its
# input: were it killed, nobody would bury it, and an instance does not end
# before all of its processes are buried.
_SCRIPT = ('ip -ts -o monitor address & sleep 0.05; ip -o address; '
           'echo told; read line; kill $!; wait')
_LINE = re.compile(r'(?:\[(?P<time>[^]]+)\] )?(?P<deleted>Deleted )?'
                   r'\d+: +\S+ +inet6? (?P<address>[^/ ]+)')


@dataclasses.dataclass(frozen=True)
class Change:
    """That an address came to an amphora, or went.

    :param time: in seconds, as of time.time().
    :param holder: the amphora's id.
    """

    time: float
    holder: str
    holds: bool


def read(line, address, now):
    """Read a line of ip's.

    :param now: when one without a time of its own was read.
    :returns: (when, whether it came), None where it tells of another address.
    """
    found = _LINE.match(line)
    if not found or found['address'] != address:
        return None
    when = now
    if found['time']:
        when = datetime.datetime.fromisoformat(found['time']).replace(
            tzinfo=datetime.UTC).timestamp()
    return when, not found['deleted']


def count(changes, since, until):
    """Sum up who held an address.

    :param changes: Changes, in any order.
    :param since: when to begin.
    :param until: when to end.
    :returns: {how many held it at once: for how many seconds}.
    """
    held = {}
    holders = set()
    for change in [*sorted(changes, key=lambda change: change.time), None]:
        now = until if change is None else min(change.time, until)
        if now > since:
            held[len(holders)] = held.get(len(holders), 0) + now - since
            since = now
        if change is not None:
            (holders.add if change.holds else holders.discard)(change.holder)
    return {number: round(seconds, 3) for number, seconds in held.items()}


class Holders(fixtures.Fixture):
    """Watches, from now on, which amphorae have an address.

    :param compute: a hypervisor.Hypervisor.
    :param address: the VIP.
    """

    def __init__(self, compute, address):
        super().__init__()
        self._compute = compute
        self._address = address
        self._changes = []
        self._watched = {}
        self._told = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _setUp(self):
        self._thread.start()
        # Those of all that there are must have told what they have.
        present = {instance.instance_id for instance in
                   list(self._compute.instances.values())
                   if instance.state == 'ACTIVE'}
        waiting.wait_for(lambda: present <= self._told, 'addresses')
        self._since = time.time()
        self.addCleanup(self.stop)

    def _look(self):
        """Watch new instances, too."""
        while not self._ended.is_set():
            for instance in list(self._compute.instances.values()):
                if (instance.instance_id not in self._watched and
                        instance.state == 'ACTIVE'):
                    self._watch(instance)
            self._ended.wait(0.1)

    def _watch(self, instance):
        try:
            command = instance.command_inside('sh', '-c', _SCRIPT)
        except (OSError, IndexError):
            # It has gone.
            return
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env={**instance.env, 'TZ': 'UTC'})
        thread = threading.Thread(target=self._read, daemon=True,
                                  args=(instance, child))
        self._watched[instance.instance_id] = child, thread
        thread.start()

    def _read(self, instance, child):
        holder = instance.instance_name.removeprefix('amphora-')
        with child:
            for line in child.stdout:
                if line == 'told\n':
                    self._told.add(instance.instance_id)
                found = read(line, self._address, time.time())
                if found:
                    self._changes.append(Change(found[0], holder, found[1]))
        # Whoever has ended holds nothing.
        self._told.add(instance.instance_id)
        self._changes.append(Change(time.time(), holder, False))

    def stop(self):
        """End it; returns count() of all until now."""
        until = time.time()
        self._ended.set()
        self._thread.join()
        for child, thread in list(self._watched.values()):
            child.stdin.close()
            thread.join()
        self._watched.clear()
        return count(self._changes, self._since, until)

    @property
    def changes(self):
        return sorted(self._changes, key=lambda change: change.time)

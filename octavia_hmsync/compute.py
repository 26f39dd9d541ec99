# SPDX-License-Identifier: Apache-2.0

"""Reads the instances of amphorae from the compute service.

It asks Nova itself where Octavia uses it: Octavia's driver for Nova repeats
a request that finds nothing for 15 s, and cannot list. Any other driver of
Octavia's is asked for what it can do.
"""

import contextlib
import dataclasses
import datetime
import re
import typing

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync import exceptions

ACTIVE = 'ACTIVE'
NOVA = cloud.Service('Nova', '[nova] endpoint', 'service_auth')

_ID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
# An evacuation is completed when its former host is up again.
_EVACUATED = ('done', 'completed')
_NAME = re.compile(f'{compat_compute.INSTANCE_PREFIX}({_ID})')


@dataclasses.dataclass(frozen=True)
class Instance:
    """An amphora's instance, by its name; is_going: it is being deleted."""

    id: str
    name: str
    amphora_id: str
    status: str
    created_at: datetime.datetime | None
    is_going: bool = False


@dataclasses.dataclass(frozen=True)
class Host:
    """A host; is_enabled: for new instances; is_up: its service lives."""

    name: str
    zone: str | None = None
    is_enabled: bool = True
    is_up: bool = True
    reason: str | None = None


class Compute(typing.Protocol):
    """Tells of instances, or raises CloudUnavailable or CloudRefused."""

    def get_status(self, compute_id: str) -> str | None:
        """Return the state of an instance; None if it does not exist."""

    def list_instances(self, amphora_id: str | None = None
                       ) -> list[Instance] | None:
        """Return instances named like amphorae; None if that is unknown."""

    def find(self, name: str) -> list[str]:
        """Return the ids of instances of a name, as far as known."""

    def get_hosts(self, host: str | None = None) -> dict[str, str]:
        """Return {id of an instance: its host}; others may be left out."""

    def list_hosts(self) -> list[Host]:
        """Return all compute hosts."""

    def get_evacuated(self) -> set[str]:
        """Return ids of instances that were rebuilt on another host."""

    def delete(self, compute_id: str) -> None:
        """Delete an instance; a missing one is no error."""


def connect(conf):
    """Return the Compute of octavia.conf, or raise CloudUnavailable."""
    name = conf.controller_worker.compute_driver
    if name == compat_compute.NOVA_DRIVER:
        return Nova(conf)
    return Driver(name)


def connect_to_nova(conf):
    """Make a connection to Nova like Octavia's."""
    return cloud.connect_as_service(conf, NOVA, 'nova', 'compute')


class Nova:
    """Nova, with the credentials of ``[service_auth]``."""

    def __init__(self, conf):
        self._conf = conf
        self._connection = connect_to_nova(conf)

    def _reported(self, action):
        return cloud.reported(self._conf, action, NOVA)

    def get_status(self, compute_id):
        with self._reported(f'read the instance {compute_id}'):
            try:
                return self._connection.compute.get_server(compute_id).status
            except sdk_exc.NotFoundException:
                return None

    def list_instances(self, amphora_id=None):
        """See Compute; None if names are random."""
        if self._conf.nova.random_amphora_name_length:
            return None
        prefix = compat_compute.INSTANCE_PREFIX
        with self._reported('list the instances of amphorae'):
            # Nova matches it as a regular expression, or as a part of a name.
            found = list(self._connection.compute.servers(
                name=f'{prefix}{amphora_id or ""}'))
            return [Instance(
                server.id, server.name, match[1], server.status,
                _parse_time(server.created_at),
                server.task_state == 'deleting')
                for server in found
                if (match := _NAME.fullmatch(server.name or '')) and
                amphora_id in (None, match[1])]

    def find(self, name):
        with self._reported(f'look for the instance {name}'):
            return [server.id for server in self._connection.compute.servers(
                name=f'^{name}$') if server.name == name]

    def get_hosts(self, host=None):
        """See Compute; Nova tells hosts to administrators alone."""
        wanted = {} if host is None else {'compute_host': host}
        if not self._conf.nova.random_amphora_name_length:
            wanted['name'] = compat_compute.INSTANCE_PREFIX
        with self._reported('list the instances of amphorae'):
            found = {server.id: server.compute_host for server in
                     self._connection.compute.servers(**wanted)}
        if None in found.values():
            raise exceptions.CloudRefused(
                'Nova does not tell on which hosts instances are: give the '
                'user of [service_auth] the role admin, or let it by the '
                'policy os_compute_api:os-extended-server-attributes.')
        return found

    def list_hosts(self):
        with self._reported('list the compute services'):
            return [Host(
                service.host, service.availability_zone,
                service.status == 'enabled', service.state == 'up',
                service.disabled_reason)
                for service in self._connection.compute.services(
                    binary='nova-compute')]

    def get_evacuated(self):
        with self._reported('list the evacuations'):
            return {each.server_id for each in
                    self._connection.compute.migrations(
                        migration_type='evacuation')
                    if each.status in _EVACUATED}

    def delete(self, compute_id):
        with self._reported(f'delete the instance {compute_id}'):
            self._connection.compute.delete_server(compute_id,
                                                   ignore_missing=True)


def _parse_time(text):
    if not text:
        return None
    # Neither Nova nor Neutron gives fractions of seconds.
    return datetime.datetime.strptime(text, '%Y-%m-%dT%H:%M:%SZ')


class Driver:
    """Another compute driver of Octavia."""

    def __init__(self, name):
        self._name = name
        with self._reported('be loaded'):
            self._driver = compat_compute.load_driver(name)

    @contextlib.contextmanager
    def _reported(self, action):
        """Turn any exception of the driver into one line."""
        try:
            yield
        except Exception as e:
            reason = ' '.join(str(e).split()).rstrip('.')
            raise exceptions.CloudUnavailable(
                f'The compute driver {self._name} could not {action} '
                f'({type(e).__name__}: {reason}). See whether the compute '
                f'service runs, and [controller_worker] compute_driver.'
            ) from e

    def get_status(self, compute_id):
        with self._reported(f'tell of the instance {compute_id}'):
            try:
                found, _fault = self._driver.get_amphora(compute_id)
            except compat_compute.NotFound:
                return None
            return found.status if found is not None else None

    def list_instances(self, amphora_id=None):
        """See Compute: drivers cannot list instances."""
        return None

    def find(self, name):
        """See Compute: drivers cannot search by name."""
        return []

    def get_hosts(self, host=None):
        """See Compute, of a driver that has a method of this name."""
        return self._ask('get_hosts')

    def list_hosts(self):
        """See Compute; the driver has a list of dicts of Host's fields."""
        return [Host(**each) for each in self._ask('list_hosts')]

    def get_evacuated(self):
        """See Compute, of a driver that has a method of this name."""
        return set(self._ask('get_evacuated'))

    def _ask(self, name):
        method = getattr(self._driver, name, None)
        if method is None:
            raise exceptions.CloudRefused(
                f'The compute driver {self._name} does not tell on which '
                f'hosts instances are: only those of Nova can be drained.')
        with self._reported('tell of hosts'):
            return method()

    def delete(self, compute_id):
        with self._reported(f'delete the instance {compute_id}'):
            self._driver.delete(compute_id)

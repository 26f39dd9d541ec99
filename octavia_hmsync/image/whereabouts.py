# SPDX-License-Identifier: Apache-2.0

"""Which amphorae a replacement or a rollout is for, by what services tell."""

import dataclasses
import functools
import json

from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync.image import causes
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image import target
from octavia_hmsync.sync.db import zone_drain as drain_repo


def get_cause(order):
    """Return the Cause of a replacement, or of the settings of a rollout."""
    return causes.Cause(causes.Kind(order.cause), order.cause_value)


class Selection:
    """Selects amphorae; each service is asked once, when it is needed."""

    def __init__(self, conf, engine, cause, only=causes.Only()):
        self._conf = conf
        self._engine = engine
        self.cause = cause
        self._only = only

    @property
    def is_by_image(self):
        return self.cause.kind is causes.Kind.IMAGE

    def holds(self, load_balancer):
        """Tell whether a load balancer is among those that are meant."""
        return self._only.holds(load_balancer, self._tagged)

    def find(self, load_balancer, image_id=None):
        """Return the amphorae of a load balancer that are to be replaced.

        :param load_balancer: of an Inventory, with places.
        :raises CloudUnavailable: if a service gives no answer.
        """
        return causes.find(self.cause, load_balancer, image_id, self._place)

    def find_zone(self, load_balancer):
        """Return the compute zone for what is built next; None for any.

        :raises CloudUnavailable: as find().
        """
        return (self._place.zones.find_return(load_balancer)
                if self.cause.kind is causes.Kind.BALANCE else None)

    def why_stays(self, load_balancer):
        """Return the causes.Stays of what cannot leave, None if it can."""
        match self.cause.kind:
            case causes.Kind.ZONE:
                return self._zones_and_hosts.why_stays(load_balancer,
                                                       self.cause.value)
            case causes.Kind.HOST:
                return self._zones_and_hosts.why_no_host(load_balancer)
        return None

    @functools.cached_property
    def _zones_and_hosts(self):
        try:
            hosts = compute.connect(self._conf).list_hosts()
        except exceptions.CloudRefused:
            # A new amphora that comes back is not taken.
            hosts = ()
        return add_hosts(
            read_zones(self._conf, self._engine), hosts, self.cause.value
            if self.cause.kind is causes.Kind.HOST else None)

    @functools.cached_property
    def _tagged(self):
        return (set() if self._only.tag is None else
                inventory_repo.get_tagged(self._engine, self._only.tag))

    @functools.cached_property
    def _place(self):
        try:
            match self.cause.kind:
                case causes.Kind.HOST:
                    hosts = compute.connect(self._conf).get_hosts(
                        self.cause.value)
                    return causes.Place({compute_id for compute_id, host in
                                         hosts.items()
                                         if host == self.cause.value})
                case causes.Kind.NETWORK:
                    return causes.Place(self._read_network())
                case causes.Kind.FLAVOR:
                    return causes.Place(compute_flavor=self._read_flavor())
                case causes.Kind.BALANCE:
                    return causes.Place(zones=self._read_uneven())
                case _:
                    return causes.Place()
        except exceptions.CloudRefused as e:
            # Its user may get the role, as it may pass otherwise.
            raise exceptions.CloudUnavailable(str(e)) from e

    def _read_uneven(self):
        left = aftermath_repo.get_left_zones(self._engine, causes.Kind.ZONE)
        return (dataclasses.replace(self._zones_and_hosts, left=left) if left
                else read_zones(self._conf, self._engine))

    def _read_network(self):
        with cloud.reported(self._conf, f'list the ports of network '
                                        f'{self.cause.value}'):
            return {port.device_id for port in
                    cloud.connect(self._conf).network.ports(
                        network_id=self.cause.value)} - {None, ''}

    def _read_flavor(self):
        default = self._conf.controller_worker.amp_flavor_id
        if self.cause.value is None:
            return default
        return next((
            target.get_from_flavor(row.flavor_data, compat.COMPUTE_FLAVOR,
                                   default)
            for row in inventory_repo.get_flavors(self._engine)
            if row.id == self.cause.value), None)


def read_zones(conf, engine):
    """Return the causes.Zones, without what Nova knows of hosts."""
    return causes.Zones(
        {row.name: _parse(row.availability_zone_data)
         for row in inventory_repo.get_zones(engine)},
        drain_repo.get_build_zone(engine, conf.nova.availability_zone),
        frozenset(drain_repo.get_all(engine)))


def add_hosts(zones, hosts, without=None):
    """Return zones with those where a host takes new instances.

    :param hosts: compute.Hosts.
    :param without: the name of a host that amphorae leave.
    """
    return dataclasses.replace(zones, enabled={
        host.zone for host in hosts
        if host.is_enabled and host.name != without})


def _parse(text):
    """Return the data of a profile; none if it cannot be read."""
    try:
        data = json.loads(text)
    except (TypeError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def why_not(conf, cause):
    """Tell why amphorae cannot leave a place now, None if they can.

    :raises CloudUnavailable: if the compute service gives no answer.
    """
    if cause.kind is not causes.Kind.HOST:
        return None
    try:
        return causes.why_not_drained(compute.connect(conf).list_hosts(),
                                      cause.value)
    except exceptions.CloudRefused as e:
        raise exceptions.CloudUnavailable(str(e)) from e

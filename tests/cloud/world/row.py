# SPDX-License-Identifier: Apache-2.0

"""A load balancer as tenants have it: how it is made, and how it is used."""

import contextlib
import dataclasses
import time
import types
import typing

from tests.cloud import waiting

SINGLE = 'SINGLE'
PAIR = 'ACTIVE_STANDBY'
REPLACE = 'replace'
FAILOVER = 'failover'
# Requests a second; a handshake of TLS takes far longer than a request.
RATE = 10


@dataclasses.dataclass(frozen=True)
class Use:
    """How a client uses one of the things that a load balancer does.

    :param what: names it among those of a row.
    :param where: finds the address, in what the API has of the load balancer;
                  its VIP if None.
    :param how: arguments of machines.Client.start_probe().
    """

    what: str = 'requests'
    where: typing.Callable | None = None
    how: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Row:
    """A load balancer as tenants have it.

    :param name: of it, in any test.
    :param make: gets places.Places; returns attributes of the API.
    :param uses: gets places.Places; returns Uses. None is for one that serves
                 nothing.
    :param topologies: in which it differs from others.
    :param flavor: data of its flavor, beside the topology.
    :param status: its operating status, once it serves.
    :param lacks: gets nothing; tells why this machine cannot have it, if so.
    """

    name: str
    make: typing.Callable
    uses: typing.Callable = lambda places: (Use(),)
    topologies: tuple = (SINGLE, PAIR)
    flavor: dict = dataclasses.field(default_factory=dict)
    status: str = 'ONLINE'
    lacks: typing.Callable = lambda: None

    def add(self, places, topology, timeout=300):
        """Make one; returns it once it serves, as its clients see it.

        :param timeout: seconds; on an idle machine it takes 20.
        """
        cloud = places.cloud
        kwargs = self.make(places)
        if topology != SINGLE or self.flavor:
            kwargs['flavor_id'] = cloud.add_flavor(
                loadbalancer_topology=topology, **self.flavor)
        made = cloud.add_load_balancer(
            f'{self.name}-{topology.lower()}', topology, wait=False, **kwargs)
        cloud.wait_until_active(made.id, timeout)
        self.wait_until_well(places, made, timeout)
        return made

    def wait_until_well(self, places, load_balancer, timeout=waiting.LIMIT):
        """Wait until it serves, and Octavia knows it."""
        api = places.cloud.connection.load_balancer

        def get_status():
            return api.get_load_balancer(load_balancer.id).operating_status
        places.cloud.wait_for(
            lambda: get_status() == self.status,
            lambda: f'{load_balancer.name} {self.status}: it is '
                    f'{get_status()}', timeout)
        for use, probe in self._start(places, load_balancer):
            # Persistent sessions begin with the first that is answered.
            waiting.wait_for(
                lambda: sum(not each.error for each in probe.requests) > 2,
                lambda: f'{use.what} of {load_balancer.name} served: '
                        f'{probe.report()}', timeout)
            probe.stop()

    def _start(self, places, load_balancer):
        found = places.cloud.connection.load_balancer.get_load_balancer(
            load_balancer.id)
        return [(use, places.client.start_probe(
            use.where(found) if use.where else found.vip_address,
            **{'rate': RATE, 'timeout': 3, **use.how}))
            for use in self.uses(places)]

    @contextlib.contextmanager
    def use(self, places, load_balancer):
        """Have clients use it meanwhile, and for a second before and after.

        :returns: what then has .reports, {what: a probe.Report}, and
                  .holders: for how many seconds how many had the VIP.
        """
        seen = types.SimpleNamespace()
        holders = places.cloud.watch_holders(load_balancer)
        probes = self._start(places, load_balancer)
        time.sleep(1)
        try:
            yield seen
            time.sleep(1)
        finally:
            seen.reports = {use.what: probe.stop() for use, probe in probes}
            seen.holders = holders.stop()

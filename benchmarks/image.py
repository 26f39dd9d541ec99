# SPDX-License-Identifier: Apache-2.0

"""What clients see while the amphorae of a load balancer are replaced.

::

    python -m benchmarks.image [--methods NAME ...] [--topologies NAME ...]
                               [--rounds N] [--rate N]

Side by side on one whole Octavia, each on a load balancer of its own that was
just made, with a member for each of two machines:

``failover``           Octavia's failover of a load balancer
``amphora-failover``   Octavia's failover of each of its amphorae, in turn
``replace``            ``octavia-hmsync image replace``: make before break
``resize``             ``octavia-hmsync resize`` to a larger flavor
``flavor``             a rollout, as the profile of its flavor has changed
``certificate``        a rollout, as its certificates end within days
``host``               ``octavia-hmsync host drain``
``zone``               ``octavia-hmsync zone drain``
``network``            a rollout out of a management network
``age``                a rollout of what was built before now
``topology``           ``octavia-hmsync resize`` to the other topology

With the first three it gets a newer image; the others are further reasons,
for which operators have Octavia's failover alone; the topology they have no
way to change.

One client asks by a new connection each time, and over one that it keeps.
Dark is the time from the begin of the first of failed requests in a row to
the begin of the next good one; broken counts connections that were kept.
Two holders is for how long two amphorae had the VIP at once, by the kernel's
own account; with nobody, none had it.
"""

import argparse
from collections.abc import Callable
import dataclasses
import datetime
import json
import time

from oslo_utils import timeutils
import sqlalchemy as sa

from benchmarks import report
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from tests.cloud import machines
from tests.cloud import networking
from tests.cloud import octavia
from tests.cloud import octavia_conf

COLUMNS = ['topology', 'method', 'requests', 'failed', 'dark_s', 'broken',
           'two_holders_s', 'nobody_s', 'takes_s']
TOPOLOGIES = ('SINGLE', 'ACTIVE_STANDBY')
# Before and after, seconds.
PAUSE = 3
# All is built on the first host.
HOST, OTHER_HOST = networking.COMPUTES
ZONES = {HOST: 'az1', OTHER_HOST: 'az2'}
FURTHER_NETWORK = '172.31.1.0/24'


class Cloud(octavia.Octavia):
    """Two compute hosts, a zone each, and two management networks.

    The health manager has an address in both.
    """

    def __init__(self):
        super().__init__(workers=1, network='bridges-two-hosts')

    def _setUp(self):
        super()._setUp()
        self.compute.zones = ZONES

    def _make_management_network(self):
        super()._make_management_network()
        self._further, subnet = self.add_network('lb-mgmt-further',
                                                 FURTHER_NETWORK)
        number = len(self.addresses)
        self._add_address(number, subnet)
        self.namespace.run('ip', 'route', 'add', FURTHER_NETWORK,
                           'dev', f'mgmt{number}')
        self.options = {'hmsync': {
            'address_driver': 'static', 'static_address': self.addresses[1],
            'further_networks': FURTHER_NETWORK}}

    def _start_health_manager(self, address):
        return super()._start_health_manager('0.0.0.0')

    def leave_management_network(self):
        """Have amphorae be built in the other one.

        :returns: the id of that where they were built before.
        """
        before = self._management
        self._management, self._further = self._further, before
        for child in (*self.workers, *self.house_keepers):
            child.options = octavia_conf.merge(
                child.options, {'controller_worker': {
                    'amp_boot_network_list': self._management.id}})
            child.stop()
            child.start()
        self.wait_until_ready()
        return before.id


class Upgrade:
    """A whole Octavia in which load balancers are upgraded, one by one."""

    def __init__(self, cloud):
        self._cloud = cloud
        self._api = cloud.connection.load_balancer
        self._members = [cloud.useFixture(machines.Member(cloud, name))
                         for name in ('member1', 'member2')]
        self._client = cloud.useFixture(machines.Client(cloud, 'client'))
        self._images = 0

    def measure(self, topology, method, rate=50):
        """Upgrade a new load balancer under a client's requests.

        :param topology: one of TOPOLOGIES.
        :param method: one of METHODS.
        :param rate: requests a second.
        :returns: a dict with the COLUMNS.
        """
        how = METHODS[method]
        self._cloud.compute.dead_hosts = {OTHER_HOST}
        made = self._cloud.add_load_balancer(f'{topology} {method}', topology,
                                             self._members)
        self._cloud.wait_for(
            lambda: self._api.get_load_balancer(
                made.id).operating_status == 'ONLINE', f'{made.name} ONLINE')
        # Amphorae of a pair wait for 15 s before one takes the VIP.
        self._client.get(made.vip_address)
        value = how.prepare(self, made) if how.prepare else None
        old = self._amphorae(made)
        holders = self._cloud.watch_holders(made)
        probe = self._client.start_probe(made.vip_address, rate=rate)
        time.sleep(PAUSE)
        begin = time.monotonic()
        how.order(self, made, value)
        takes = time.monotonic() - begin
        time.sleep(PAUSE)
        seen = probe.stop()
        held = holders.stop()
        new = self._amphorae(made)
        number = 3 - len(old) if method == 'topology' else len(old)
        if old.keys() & new or len(new) != number or (
                how.prepare is Upgrade.add_image and
                set(old.values()) & set(new.values())):
            raise RuntimeError(f'{made.name} has {new} after {old}')
        if how.end:
            how.end(self)
        self._api.delete_load_balancer(made.id, cascade=True)
        self._cloud.wait_for(
            lambda: not self._api.find_load_balancer(made.id),
            f'end of {made.name}')
        return {'topology': topology, 'method': method,
                'requests': seen.requests, 'failed': seen.failed,
                'dark_s': float(seen.dark), 'broken': seen.broken,
                'two_holders_s': float(sum(
                    seconds for number, seconds in held.items()
                    if number > 1)),
                'nobody_s': float(held.get(0, 0)), 'takes_s': takes}

    def _amphorae(self, load_balancer):
        """Ids of the images of its amphorae, by their ids."""
        return {each.id: each.image_id for each in self._api.amphorae(
            loadbalancer_id=load_balancer.id)}

    # What prepares; what it returns is for the order

    def add_image(self, _load_balancer):
        self._images += 1
        self._cloud.add_image(f'image{self._images}')

    def add_larger_flavor(self, _load_balancer):
        return self._cloud.add_flavor(compute_flavor='larger')

    def add_topology(self, load_balancer):
        """Return a flavor of the topology that it does not have."""
        is_pair = len(self._amphorae(load_balancer)) > 1
        return self._cloud.add_flavor(
            loadbalancer_topology='SINGLE' if is_pair else 'ACTIVE_STANDBY')

    def change_flavor(self, load_balancer):
        """Change the profile of its flavor, which Octavia's API refuses."""
        flavor_id = load_balancer.flavor_id or self._cloud.add_flavor()
        flavor = self._api.get_flavor(flavor_id)
        profile = self._api.get_flavor_profile(flavor.flavor_profile_id)
        with self._cloud.engine.begin() as connection:
            connection.execute(sa.text(
                'UPDATE load_balancer SET flavor_id = :flavor '
                'WHERE id = :id'), {'flavor': flavor_id,
                                    'id': load_balancer.id})
            connection.execute(sa.text(
                'UPDATE flavor_profile SET flavor_data = :data '
                'WHERE id = :id'), {'id': profile.id, 'data': json.dumps({
                    **json.loads(profile.flavor_data),
                    'compute_flavor': 'larger'})})
        return flavor_id

    def end_certificates(self, load_balancer):
        with self._cloud.engine.begin() as connection:
            connection.execute(
                sa.text('UPDATE amphora SET cert_expiration = :soon '
                        'WHERE load_balancer_id = :id'),
                {'soon': timeutils.utcnow() + datetime.timedelta(days=5),
                 'id': load_balancer.id})
        return '10'

    def disable_host(self, _load_balancer):
        self._cloud.compute.dead_hosts = {HOST}

    def enable_hosts(self, _load_balancer):
        self._cloud.compute.dead_hosts = set()

    def leave_network(self, _load_balancer):
        return self._cloud.leave_management_network()

    # What orders

    def failover(self, load_balancer, _value):
        self._api.failover_load_balancer(load_balancer.id)
        self._cloud.wait_until_active(load_balancer.id)

    def failover_amphorae(self, load_balancer, _value):
        """As operators do who loop over them."""
        for amphora_id in sorted(self._amphorae(load_balancer)):
            self._api.failover_amphora(amphora_id)
            # It is PENDING only when a worker has taken it up.
            self._cloud.wait_for(
                lambda: amphora_id not in self._amphorae(load_balancer),
                f'failover of {amphora_id}', 120)
            self._cloud.wait_until_active(load_balancer.id)

    def replace(self, load_balancer, _value):
        self._command(load_balancer, 'image', 'replace', load_balancer.id)

    def resize(self, load_balancer, flavor_id):
        self._command(load_balancer, 'resize', load_balancer.id, '--flavor',
                      flavor_id)

    def drain_host(self, load_balancer, _value):
        self._roll_out(load_balancer, 'host', 'drain', HOST)

    def drain_zone(self, load_balancer, _value):
        until = timeutils.utcnow() + datetime.timedelta(hours=1)
        self._roll_out(load_balancer, 'zone', 'drain', ZONES[HOST], '--until',
                       until.isoformat(), '--build-in', ZONES[OTHER_HOST])

    def _command(self, load_balancer, *arguments):
        self._cloud.command('octavia-hmsync', *arguments, '--wait')
        self._cloud.wait_until_active(load_balancer.id)

    def _roll_out(self, load_balancer, *what):
        self._command(load_balancer, *what, '--loadbalancer',
                      load_balancer.id, '--watch-time', '0')

    def roll_out(self, load_balancer, why, value):
        self._roll_out(load_balancer, 'image', 'rollout', 'start', why, value)

    # What ends it

    def release_zone(self):
        """End the drain, and wait for the rollout that follows."""
        engine = self._cloud.engine
        self._cloud.command('octavia-hmsync', 'zone', 'release', ZONES[HOST])
        self._cloud.wait_for(
            lambda: not drain_repo.get_ended(engine) and
            rollout_repo.get_active(engine) is None, 'end of the drain')


def _rollout(why):
    """Return the order of a rollout; why: its option for what prepares."""
    return lambda upgrade, load_balancer, value: upgrade.roll_out(
        load_balancer, why, value)


@dataclasses.dataclass(frozen=True)
class Method:
    """What is measured, what comes before it, and what ends it."""

    order: Callable
    prepare: Callable | None = None
    end: Callable | None = None


METHODS = {
    'failover': Method(Upgrade.failover, Upgrade.add_image),
    'amphora-failover': Method(Upgrade.failover_amphorae, Upgrade.add_image),
    'replace': Method(Upgrade.replace, Upgrade.add_image),
    'resize': Method(Upgrade.resize, Upgrade.add_larger_flavor),
    'flavor': Method(_rollout('--flavor'), Upgrade.change_flavor),
    'certificate': Method(_rollout('--certificate-ends-within'),
                          Upgrade.end_certificates),
    'host': Method(Upgrade.drain_host, Upgrade.disable_host),
    'zone': Method(Upgrade.drain_zone, Upgrade.enable_hosts,
                   Upgrade.release_zone),
    'network': Method(_rollout('--from-network'), Upgrade.leave_network),
    'age': Method(_rollout('--built-before'),
                  lambda _upgrade, _lb: timeutils.utcnow().isoformat()),
    'topology': Method(Upgrade.resize, Upgrade.add_topology)}


def run(methods=tuple(METHODS), topologies=TOPOLOGIES, rounds=1, rate=50):
    """Measure.

    :param methods: some of METHODS.
    :param topologies: some of TOPOLOGIES.
    :param rounds: how often each.
    :param rate: requests a second.
    :returns: a list of dicts with the COLUMNS.
    """
    with Cloud() as cloud:
        cloud.wait_until_ready()
        upgrade = Upgrade(cloud)
        return [upgrade.measure(topology, method, rate)
                for topology in topologies for method in methods
                for _ in range(rounds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--methods', nargs='+', choices=METHODS,
                        default=list(METHODS))
    parser.add_argument('--topologies', nargs='+', choices=TOPOLOGIES,
                        default=TOPOLOGIES)
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--rate', type=int, default=50)
    report.print_results('image', COLUMNS, run(**vars(parser.parse_args())))


if __name__ == '__main__':
    main()

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

With the first three it gets a newer image; the others are further reasons,
for which operators have Octavia's failover alone.

One client asks by a new connection each time, and over one that it keeps.
Dark is the time from the begin of the first of failed requests in a row to
the begin of the next good one; broken counts connections that were kept.
Two holders is for how long two amphorae had the VIP at once, by the kernel's
own account; with nobody, none had it.
"""

import argparse
import datetime
import json
import time

from oslo_utils import timeutils
import sqlalchemy as sa

from benchmarks import report
from tests.cloud import machines
from tests.cloud import octavia

COLUMNS = ['topology', 'method', 'requests', 'failed', 'dark_s', 'broken',
           'two_holders_s', 'nobody_s', 'takes_s']
TOPOLOGIES = ('SINGLE', 'ACTIVE_STANDBY')
# Before and after, seconds.
PAUSE = 3


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
        made = self._cloud.add_load_balancer(f'{topology} {method}', topology,
                                             self._members)
        self._cloud.wait_for(
            lambda: self._api.get_load_balancer(
                made.id).operating_status == 'ONLINE', f'{made.name} ONLINE')
        # Amphorae of a pair wait for 15 s before one takes the VIP.
        self._client.get(made.vip_address)
        if method in UPGRADES:
            self._images += 1
            self._cloud.add_image(f'image{self._images}')
        old = self._amphorae(made)
        holders = self._cloud.watch_holders(made)
        probe = self._client.start_probe(made.vip_address, rate=rate)
        time.sleep(PAUSE)
        begin = time.monotonic()
        METHODS[method](self, made)
        takes = time.monotonic() - begin
        time.sleep(PAUSE)
        seen = probe.stop()
        held = holders.stop()
        new = self._amphorae(made)
        if old.keys() & new or len(new) != len(old) or (
                method in UPGRADES and
                set(old.values()) & set(new.values())):
            raise RuntimeError(f'{made.name} has {new} after {old}')
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

    # Methods

    def failover(self, load_balancer):
        self._api.failover_load_balancer(load_balancer.id)
        self._cloud.wait_until_active(load_balancer.id)

    def failover_amphorae(self, load_balancer):
        """As operators do who loop over them."""
        for amphora_id in sorted(self._amphorae(load_balancer)):
            self._api.failover_amphora(amphora_id)
            # It is PENDING only when a worker has taken it up.
            self._cloud.wait_for(
                lambda: amphora_id not in self._amphorae(load_balancer),
                f'failover of {amphora_id}', 120)
            self._cloud.wait_until_active(load_balancer.id)

    def replace(self, load_balancer):
        self._cloud.command('octavia-hmsync', 'image', 'replace',
                            load_balancer.id, '--wait')
        self._cloud.wait_until_active(load_balancer.id)

    def resize(self, load_balancer):
        self._cloud.command(
            'octavia-hmsync', 'resize', load_balancer.id, '--wait', '--flavor',
            self._cloud.add_flavor(compute_flavor='larger'))

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
        self._roll_out(load_balancer, '--flavor', flavor_id)

    def end_certificates(self, load_balancer):
        with self._cloud.engine.begin() as connection:
            connection.execute(
                sa.text('UPDATE amphora SET cert_expiration = :soon '
                        'WHERE load_balancer_id = :id'),
                {'soon': timeutils.utcnow() + datetime.timedelta(days=5),
                 'id': load_balancer.id})
        self._roll_out(load_balancer, '--certificate-ends-within', '10')

    def _roll_out(self, load_balancer, *why):
        self._cloud.command(
            'octavia-hmsync', 'image', 'rollout', 'start', *why,
            '--loadbalancer', load_balancer.id, '--watch-time', '0', '--wait')
        self._cloud.wait_until_active(load_balancer.id)


# To a newer image.
UPGRADES = ('failover', 'amphora-failover', 'replace')
METHODS = {'failover': Upgrade.failover,
           'amphora-failover': Upgrade.failover_amphorae,
           'replace': Upgrade.replace,
           'resize': Upgrade.resize,
           'flavor': Upgrade.change_flavor,
           'certificate': Upgrade.end_certificates}


def run(methods=tuple(METHODS), topologies=TOPOLOGIES, rounds=1, rate=50):
    """Measure.

    :param methods: some of METHODS.
    :param topologies: some of TOPOLOGIES.
    :param rounds: how often each.
    :param rate: requests a second.
    :returns: a list of dicts with the COLUMNS.
    """
    with octavia.Octavia(workers=1) as cloud:
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

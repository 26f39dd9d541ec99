# SPDX-License-Identifier: Apache-2.0

"""What may happen to a whole Octavia with a cluster, and to that cluster.

Each is begun and, after a while, ended; afterwards all is there again, but
for members that died.
"""

import contextlib
import subprocess

from tests.cloud import waiting


class Fault:
    """Something that happens.

    .name says what happens to whom, .is_felt whether a client may notice
    more than the connections that are named as lost. At once with others
    there is at most one of each .group.

    :param world: a World.
    :param chance: a random.Random.
    """

    group = 'controller'
    is_felt = False

    def __init__(self, world, chance):
        self.world = world
        self.cloud = world.cloud
        self.chance = chance
        self.name = type(self).__name__

    def about(self, whom):
        self.name = f'{type(self).__name__} {whom}'
        return whom

    def begin(self):
        """Have it happen."""

    def end(self):
        """Have it be over; what was killed is started."""


# Of members. They take the connections with them that they have.

class MemberKilled(Fault):
    """The power of an instance is cut."""

    group = 'member'
    is_felt = True
    number = 1

    def begin(self):
        found = sorted(self.world.get_serving())
        number = min(self.number, len(found))
        chosen = self.chance.sample(found, number)
        self.about(' '.join(chosen))
        for amphora_id in chosen:
            self.world.lose(amphora_id)
            self.cloud.compute.by_amphora(amphora_id).kill_tree()


class HalfOfMembersKilled(MemberKilled):
    @property
    def number(self):
        return max(1, len(self.world.get_serving()) // 2)


class MemberHung(Fault):
    """It does nothing for a while."""

    group = 'member'
    is_felt = True

    def begin(self):
        amphora_id = self.about(self.chance.choice(
            sorted(self.world.get_serving())))
        self.world.lose(amphora_id)
        self._instance = self.cloud.compute.by_amphora(amphora_id)
        self._instance.pause()

    def end(self):
        # It may have been deleted as one that is dead.
        with contextlib.suppress(ProcessLookupError, TypeError):
            self._instance.resume()


class MemberForwardsNothing(Fault):
    """Its agent answers, and sends heartbeats; its haproxy is gone."""

    group = 'member'
    is_felt = True

    def begin(self):
        amphora_id = self.about(self.chance.choice(
            sorted(self.world.get_serving())))
        self.world.lose(amphora_id)
        self._instance = self.cloud.compute.by_amphora(amphora_id)
        self._call('stop')

    def _call(self, what):
        self._instance.systemctl(what, self.world.haproxy_unit)

    def end(self):
        # It may have been deleted meanwhile.
        with contextlib.suppress(OSError, subprocess.SubprocessError,
                                 IndexError, TypeError):
            self._call('start')


class ProcessFault(Fault):
    """A process that choose() returns is killed, or hangs."""

    _child = None

    def begin(self):
        self._child = self.choose()
        self.strike(self._child)


class Killed(ProcessFault):

    def strike(self, child):
        child.kill_tree()

    def end(self):
        self._child.start()


class Hung(ProcessFault):

    def strike(self, child):
        child.pause()

    def end(self):
        self._child.resume()


# Of controllers, and what these stand on: no client notices.

class Controller:

    def choose(self):
        child = self.chance.choice(self.world.controllers)
        self.about(child.name)
        return child


class ControllerKilled(Controller, Killed):
    pass


class ControllerHung(Controller, Hung):
    pass


class Keeper:
    """The process that keeps clusters; there is one."""

    def choose(self):
        return self.world.keeper


class KeeperKilled(Keeper, Killed):
    pass


class KeeperHung(Keeper, Hung):
    pass


class Worker:

    def choose(self):
        return self.cloud.workers[0]


class WorkerKilled(Worker, Killed):
    pass


class WorkerHung(Worker, Hung):
    pass


class HealthManager:

    def choose(self):
        return self.cloud.health_managers[0]


class HealthManagerKilled(HealthManager, Killed):
    pass


class HealthManagerHung(HealthManager, Hung):
    pass


class Database:

    group = 'base'

    def choose(self):
        return self.cloud.database.server


class DatabaseHung(Database, Hung):
    pass


class DatabaseKilled(Database, Killed):

    def end(self):
        super().end()
        self._child.wait_until_ready()


class RabbitMQ:

    group = 'base'

    def choose(self):
        return self.cloud.rabbitmq


class RabbitMQHung(RabbitMQ, Hung):
    pass


class RabbitMQKilled(RabbitMQ, Killed):

    def end(self):
        super().end()
        self._child.wait_until_ready()


# Of distributors: packets go on, or another one has them.

class Distributor:
    """Its process; packets do not pass that."""

    group = 'distributor'

    def choose(self):
        child = self.world.choose_distributor(self.chance)
        self.about(child.name)
        return child


class DistributorKilled(Distributor, Killed):
    pass


class DistributorHung(Distributor, Hung):
    pass


class DistributorApart(Fault):
    """Controllers do not reach it, and clients do."""

    group = 'distributor'

    def begin(self):
        chosen = self.world.choose_distributor(self.chance)
        self._host = self.about(chosen.host)
        self.cloud.set_link(self._host, 'down')

    def end(self):
        self.cloud.set_link(self._host, 'up')


class VswitchHung(Fault):
    """Open vSwitch of a network node: packets go nowhere."""

    group = 'distributor'
    is_felt = True

    def begin(self):
        chosen = self.world.choose_distributor(self.chance)
        node = self.cloud.networking.chassis[self.about(chosen.host)]
        self._vswitch = node.vswitch
        self._vswitch.vswitchd.pause()

    def end(self):
        self._vswitch.vswitchd.resume()


class VswitchKilled(VswitchHung):

    def begin(self):
        chosen = self.world.choose_distributor(self.chance)
        node = self.cloud.networking.chassis[self.about(chosen.host)]
        self._vswitch = node.vswitch
        # Unless another one becomes active, which knows them, too.
        self.world.lose_pinned(chosen.host)
        self._vswitch.vswitchd.kill_tree()

    def end(self):
        self._vswitch.start_vswitchd()


class NodeKilled(Fault):
    """A network node, with all that runs there."""

    group = 'distributor'
    is_felt = True

    def begin(self):
        self._child = self.world.choose_distributor(self.chance)
        self.about(self._child.host)
        self.world.lose_pinned(self._child.host)
        self.cloud.kill_node(self._child.host)

    def end(self):
        self.cloud.start_node(self._child.host)


# What operators and tenants do meanwhile.

class Order(Fault):
    """What a command does, if it may now."""

    group = 'order'

    def order(self, *arguments):
        """Tell whether it did what it was told."""
        try:
            self.world.order(*arguments)
            return True
        except RuntimeError as e:
            self.name += f', refused: {str(e).splitlines()[-1]}'
            return False


class Resized(Order):

    def begin(self):
        self._set(self.about(self.chance.choice(self.world.sizes)))

    def _set(self, size):
        return self.order('cluster', 'set', self.world.lb.id, '--desired',
                          str(size), '--cooldown', '0')

    def end(self):
        # Somebody may change the cluster at the same moment.
        waiting.wait_for(lambda: self._set(self.world.size),
                         f'{self.world.size} members', 60, 1)


class Grown(Resized):
    """It stays so."""

    def begin(self):
        self._set(self.about(max(self.world.sizes)))

    def end(self):
        pass


class Shrunk(Grown):

    def begin(self):
        self._set(self.about(self.world.size))


class Replaced(Order):

    def begin(self):
        amphora_id = self.about(self.chance.choice(
            sorted(self.world.get_serving())))
        self.order('cluster', 'member', 'replace', amphora_id)


class Drained(Order):

    def begin(self):
        self._amphora_id = self.about(self.chance.choice(
            sorted(self.world.get_serving())))
        self.order('cluster', 'member', 'drain', self._amphora_id)

    def _undrain(self):
        # It may have been replaced meanwhile.
        return 'DRAIN' not in {
            member['ordered'] for member in self.world.members
            if member['amphora_id'] == self._amphora_id} or self.order(
                'cluster', 'member', 'undrain', self._amphora_id)

    def end(self):
        waiting.wait_for(self._undrain, 'end of a drain', 60, 1)


class Moved(Order):

    def begin(self):
        self.order('distributor', 'move', self.world.lb.id)


class Updated(Fault):
    """A tenant changes a listener, if it may."""

    group = 'tenant'

    def begin(self):
        self.name = f'Updated {self.world.update()}'


# A tenant owns the network, and what is in it.

class DistributorPortDeleted(Fault):
    """Of the one that answers."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        self._port_id = self.world.get_active_port()
        self.about(self._port_id)
        self.cloud.connection.network.delete_port(self._port_id)

    def end(self):
        waiting.wait_for(
            lambda: self.world.get_active_port() != self._port_id,
            'another port of a distributor', 120, 1)


class VIPPortDeleted(Fault):
    """Neutron forgets its floating IP, whose owner gives it back."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        self._port_id = self.about(self.world.get_vip_port())
        self._network = self.cloud.connection.network
        self._floating = list(self._network.ips(port_id=self._port_id))
        if self._floating:
            self.world.lose_outside()
        self._network.delete_port(self._port_id)

    def end(self):
        waiting.wait_for(
            lambda: self.world.get_vip_port() != self._port_id,
            'another port of the VIP', 120, 1)
        made = self._network.get_port(self.world.get_vip_port())
        if self.world.lb.vip_address not in {
                ip['ip_address'] for ip in made.fixed_ips}:
            raise AssertionError(f'{made} has not the address of the VIP')
        for each in self._floating:
            self._network.update_ip(each.id, port_id=made.id)


class GroupDeleted(Fault):
    """The security group of the load balancer, which its ports lost before."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        self._group_name = self.about(f'lb-{self.world.lb.id}')
        network = self.cloud.connection.network
        group = network.find_security_group(self._group_name,
                                            ignore_missing=False)
        self.world.lose_all()
        self._ports = []
        for port in network.ports():
            if group.id in port.security_group_ids:
                self._ports.append(port.id)
                network.update_port(port.id, security_groups=[
                    other for other in port.security_group_ids
                    if other != group.id])
        network.delete_security_group(group.id)

    def _find_without(self):
        network = self.cloud.connection.network
        group = network.find_security_group(self._group_name)
        return [port.id for port in network.ports() if port.id in self._ports
                and (group is None or group.id not in port.security_group_ids)]

    def end(self):
        waiting.wait_for(lambda: not self._find_without(),
                         'ports with the security group', 120, 1)


class RulesDeleted(Fault):
    """The security group of the load balancer admits nothing any more."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        name = self.about(f'lb-{self.world.lb.id}')
        network = self.cloud.connection.network
        self._group = network.find_security_group(name, ignore_missing=False)
        self._before = self._read()
        # What OVN drops of an established connection it goes on to drop until
        # its client sends something; a client that waits for an answer does
        # not.
        self.world.lose_all()
        for rule in network.security_group_rules(
                security_group_id=self._group.id):
            network.delete_security_group_rule(rule.id)

    def _read(self):
        return sorted(
            (rule.direction, rule.ether_type, str(rule.protocol),
             str(rule.port_range_min), str(rule.remote_ip_prefix),
             str(rule.remote_group_id)) for rule in
            self.cloud.connection.network.security_group_rules(
                security_group_id=self._group.id))

    def end(self):
        waiting.wait_for(lambda: self._read() == self._before,
                         lambda: f'{self._before}, not {self._read()}', 120,
                         1)


class PortChanged(Fault):
    """A port loses its address pairs and security groups."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        self._port_id = self.about(self.choose())
        self._before = self._read()
        self._change(self.cloud.connection.network)

    def _change(self, network):
        network.update_port(self._port_id, allowed_address_pairs=[],
                            security_groups=[])

    def _read(self):
        port = self.cloud.connection.network.get_port(self._port_id)
        return ({pair['ip_address'].partition('/')[0]
                 for pair in port.allowed_address_pairs},
                set(port.security_group_ids))

    def end(self):
        waiting.wait_for(lambda: self._read() == self._before,
                         'what the port had', 120, 1)


class VIPPortChanged(PortChanged):
    """It loses its groups and its owner, and has an address more."""

    is_felt = False

    def choose(self):
        return self.world.get_vip_port()

    def _change(self, network):
        port = network.get_port(self._port_id)
        network.update_port(
            self._port_id, security_groups=[], device_owner='',
            fixed_ips=[*port.fixed_ips,
                       {'subnet_id': port.fixed_ips[0]['subnet_id']}])

    def _read(self):
        port = self.cloud.connection.network.get_port(self._port_id)
        return (set(port.security_group_ids), port.device_owner,
                {ip['ip_address'] for ip in port.fixed_ips})


class DistributorPortChanged(PortChanged):
    """Of the one that answers."""

    def choose(self):
        return self.world.get_active_port()


class MemberPortDeleted(Fault):
    """That of the front end: the member is replaced."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        amphora_id = self.chance.choice(sorted(self.world.get_serving()))
        self.world.lose(amphora_id)
        self.cloud.connection.network.delete_port(
            self.about(self.world.get_port(amphora_id)))


class MemberPortChanged(PortChanged):
    """That of the front end."""

    def choose(self):
        return self.world.get_port(self.chance.choice(
            sorted(self.world.get_serving())))


class MemberPortOff(Fault):
    """That of the front end carries nothing."""

    group = 'tenant'
    is_felt = True

    def begin(self):
        self._port_id = self.about(self.world.get_port(self.chance.choice(
            sorted(self.world.get_serving()))))
        self.cloud.connection.network.update_port(self._port_id,
                                                  admin_state_up=False)

    def end(self):
        waiting.wait_for(
            lambda: self.cloud.connection.network.get_port(
                self._port_id).is_admin_state_up, 'port that is on', 120, 1)


KINDS = (
    MemberKilled, MemberKilled, MemberHung, MemberForwardsNothing,
    HalfOfMembersKilled, ControllerKilled, ControllerKilled, ControllerHung,
    DatabaseHung, DatabaseKilled, RabbitMQHung, RabbitMQKilled,
    DistributorKilled, DistributorHung, DistributorApart, VswitchHung,
    VswitchKilled, NodeKilled, Resized, Replaced, Drained, Moved, Updated,
    DistributorPortDeleted, DistributorPortChanged, MemberPortDeleted,
    MemberPortChanged, MemberPortOff, VIPPortDeleted, VIPPortChanged,
    RulesDeleted, GroupDeleted)
# What a tenant's clean-up script may do to what is its own in Neutron.
OF_TENANTS = tuple(kind for kind in KINDS
                   if kind.group == 'tenant' and kind is not Updated)


def may_be_together(one, other):
    """Tell whether two kinds of Fault may happen at once."""
    groups = {one.group, other.group}
    # Nothing is even taken without a database.
    return len(groups) == 2 and (
        'base' not in groups or groups.isdisjoint(('order', 'tenant')))

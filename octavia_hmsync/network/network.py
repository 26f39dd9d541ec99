# SPDX-License-Identifier: Apache-2.0

"""Ensures the management network and its configuration."""

import dataclasses
import functools
import ipaddress

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.network import changes as network_changes
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network import marks
from octavia_hmsync.network import parts
from octavia_hmsync.network import security_groups as groups

# Attempts while another Octavia, without our database, is faster.
_ATTEMPTS = 3
# An amphora, a controller, DHCP, and one more while an amphora is replaced.
_FEWEST_ADDRESSES = 8


@dataclasses.dataclass
class Result:
    """What a call found and did; ids: without what a dry run would make."""

    ids: dict
    changes: list
    notes: list

    def to_ids(self):
        """Return the network_repo.Ids."""
        return network_repo.Ids(
            self.ids[marks.NETWORK], self.ids[marks.SUBNET],
            self.ids[marks.AMPHORA_GROUP],
            self.ids[marks.HEALTH_MANAGER_GROUP])


def get_recorded(row):
    """Return {role: id} of a row of hmsync_network; empty without one."""
    if row is None or row.network_id is None:
        return {}
    return {marks.NETWORK: row.network_id, marks.SUBNET: row.subnet_id,
            marks.AMPHORA_GROUP: row.amphora_security_group_id,
            marks.HEALTH_MANAGER_GROUP: row.health_manager_security_group_id}


def read_cidr(conf):
    """Return ``management_subnet_cidr``, or raise InvalidConfiguration."""
    text = conf[network_conf.GROUP].management_subnet_cidr
    option = f'[{network_conf.GROUP}] management_subnet_cidr'
    if not text:
        raise exceptions.InvalidConfiguration(
            f'{option} is not set: give the addresses that the management '
            f'network may use, such as 172.16.0.0/22.')
    try:
        cidr = ipaddress.ip_network(text)
    except ValueError as e:
        raise exceptions.InvalidConfiguration(
            f'{option} = {text} is no network: {e}.')
    if cidr.is_loopback or cidr.is_multicast or cidr.is_link_local:
        raise exceptions.InvalidConfiguration(
            f'{option} = {text} is not for hosts: amphorae could not be '
            f'reached there.')
    if cidr.num_addresses < _FEWEST_ADDRESSES:
        raise exceptions.InvalidConfiguration(
            f'{option} = {text} has {cidr.num_addresses} addresses: too few '
            f'for amphorae and controllers.')
    return cidr


def get_parts(conf):
    """Return four Parts: network, subnet, and the two security groups."""
    opts = conf[network_conf.GROUP]
    return (
        parts.Part(parts.NETWORK, marks.NETWORK, opts.network_name,
                   {'is_admin_state_up': True}),
        parts.Part(parts.SUBNET, marks.SUBNET, f'{opts.network_name}-subnet',
                   {'is_dhcp_enabled': True}),
        parts.Part(parts.GROUP, marks.AMPHORA_GROUP,
                   opts.amphora_security_group),
        parts.Part(parts.GROUP, marks.HEALTH_MANAGER_GROUP,
                   opts.health_manager_security_group))


def ensure(conf, engine, connection, adopt=False, dry_run=False):
    """Make, complete or adopt the management network.

    It may be repeated. When it fails, it takes back what it has made.

    :param adopt: use parts with the configured names that are not ours yet.
    :raises InvalidConfiguration: if an option cannot be used.
    :raises NotPossible: if something is in the way, naming it.
    :raises CloudRefused: if Neutron says no.
    :raises CloudUnavailable: if it does not answer.
    :raises DatabaseUnavailable: if what was made had to stay, as above.
    """
    read_cidr(conf)
    name = conf[network_conf.GROUP].network_name
    if dry_run:
        return Ensurance(conf, connection, network_repo.get_row(engine, name),
                         network_changes.Changes(conf, dry_run=True),
                         adopt).run()
    with network_changes.hold(conf, engine) as held:
        changes = network_changes.Changes(
            conf, before=held.look,
            before_undo=functools.partial(network_changes.look_to_undo, held))
        try:
            result = _ensure_against_others(
                conf, connection, network_repo.get_row(engine, name),
                changes, adopt)
            held.require(network_repo.record(engine, name, held.owner,
                                             result.to_ids()))
            return result
        except BaseException as e:
            left = changes.take_back()
            if left and isinstance(e, exceptions.HMSyncException):
                raise type(e)(f'{e} {left}')
            if left and api.is_database_error(e):
                raise exceptions.DatabaseUnavailable(
                    f'{api.explain(e)} {left}') from e
            raise


def _ensure_against_others(conf, connection, row, changes, adopt):
    """Ensure the network while others, without our lock, do the same.

    Neutron has no unique names. An attempt that finds two of a part keeps the
    older one, deletes its own, and begins again.
    """
    for _attempt in range(_ATTEMPTS):
        ensurance = Ensurance(conf, connection, row, changes, adopt)
        result = ensurance.run()
        lost = ensurance.find_lost()
        if not lost:
            return result
        for resource in lost:
            changes.take_back_one(resource.id)
    raise exceptions.NotPossible(
        f'Another process makes and deletes the management network '
        f'{conf[network_conf.GROUP].network_name} all the time: find and '
        f'stop it, then try again.')


class Ensurance:
    """One attempt to ensure the network.

    :param is_repair: repair an existing network: a part that only an operator
                      can have deleted is not made again, and nothing is
                      removed.
    """

    def __init__(self, conf, connection, row, changes, adopt=False,
                 is_repair=False):
        self._conf = conf
        self._cidr = read_cidr(conf)
        self._changes = changes
        self._adopt = adopt
        self._is_repair = is_repair
        self._parts = parts.Parts(
            conf, connection, conf[network_conf.GROUP].network_name, changes,
            get_recorded(row))
        self._rules = groups.Rules(conf, connection, changes, self._parts,
                                   remove=not is_repair)
        self._made = False
        self._new_network_id = None
        self._found = []

    def run(self):
        """Make the attempt."""
        network_part, subnet_part, amphora_part, manager_part = (
            get_parts(self._conf))
        network = self._ensure(network_part, self._check_network)
        subnet = self._ensure_subnet(subnet_part, network)
        amphorae = self._ensure(amphora_part)
        managers = self._ensure(manager_part)
        for part, group, other in ((amphora_part, amphorae, managers),
                                   (manager_part, managers, amphorae)):
            self._rules.ensure(part, group, self._cidr.version, other)
        self._found = [(network_part, network), (amphora_part, amphorae),
                       (manager_part, managers)]
        return Result(
            {part.role: resource.id for part, resource in
             [*self._found, (subnet_part, subnet)] if resource},
            self._changes.done, self._parts.notes)

    def find_lost(self):
        """Find parts of which another process made an older one.

        :returns: a list of SDK resources that do not count any more.
        """
        if not self._made:
            return []
        return [resource for part, resource in self._found
                if not self._parts.is_still(part, resource)]

    def _ensure(self, part, check=None):
        """Find a part, or make it, or adopt a resource of its name."""
        ours, others = self._parts.find(part)
        if not ours:
            return self._take(part, others, check)
        self._parts.note_duplicates(part, ours)
        self._parts.repair(part, ours[0])
        return ours[0]

    def _take(self, part, others, check=None):
        if not others:
            return self._create(part)
        known = ', '.join(other.id for other in others)
        if len(others) > 1:
            raise exceptions.NotPossible(
                f'There are {len(others)} {part.kind.noun}s with the name '
                f'{part.name}, none of them made by octavia-hmsync: {known}. '
                f'Rename all but the right one, or choose another name '
                f'in [{network_conf.GROUP}].')
        if not self._adopt:
            raise exceptions.NotPossible(
                f'There is a {part.title} ({known}), and octavia-hmsync has '
                f'not made it. Choose another name in '
                f'[{network_conf.GROUP}], or use "octavia-hmsync network '
                f'ensure --adopt" to use this one.')
        if check:
            check(others[0])
        self._parts.adopt(part, others[0])
        return others[0]

    def _create(self, part, **attributes):
        if self._is_repair and part.kind is not parts.GROUP:
            raise exceptions.NotPossible(
                f'The {part.title} is gone: run "octavia-hmsync network '
                f'ensure".')
        part = dataclasses.replace(part, wanted={**part.wanted, **attributes})
        made = self._parts.create(part)
        self._made = self._made or made is not None
        if made and part.kind is parts.NETWORK:
            self._new_network_id = made.id
        return made

    @staticmethod
    def _check_network(network):
        if network.is_port_security_enabled is False:
            raise exceptions.NotPossible(
                f'The network {parts.describe(network)} has no port '
                f'security, so that nothing can have a security group in '
                f'it: set --enable-port-security on it.')

    def _ensure_subnet(self, part, network):
        if network is None:
            return self._create_subnet(part)
        part = dataclasses.replace(part, query={'network_id': network.id})
        if network.id == self._new_network_id:
            return self._create_subnet(part)
        ours, _others = self._parts.find(part)
        if ours:
            self._check_cidr(ours[0])
            self._parts.note_duplicates(part, ours)
            self._parts.repair(part, ours[0])
            return ours[0]
        for other in self._parts.list(parts.SUBNET, network_id=network.id):
            cidr = ipaddress.ip_network(other.cidr, strict=False)
            if not self._cidr.overlaps(cidr):
                continue
            if cidr == self._cidr:
                return self._take(part, [other])
            raise exceptions.NotPossible(
                f'[{network_conf.GROUP}] management_subnet_cidr = '
                f'{self._cidr} overlaps with {other.cidr} of the subnet '
                f'{parts.describe(other)} in the same network: choose '
                f'another, or delete that subnet.')
        return self._create_subnet(part)

    def _create_subnet(self, part):
        # No gateway: only amphorae and controllers use the network.
        attributes = {'cidr': str(self._cidr), 'gateway_ip': None,
                      'ip_version': self._cidr.version}
        if self._cidr.version == 6:
            attributes.update(ipv6_address_mode='dhcpv6-stateful',
                              ipv6_ra_mode='dhcpv6-stateful')
        try:
            return self._create(part, **attributes)
        except exceptions.CloudRefused:
            # Another process may have made it a moment ago.
            ours, _others = self._parts.find(part)
            if not ours:
                raise
            return ours[0]

    def _check_cidr(self, subnet):
        if ipaddress.ip_network(subnet.cidr, strict=False) != self._cidr:
            raise exceptions.NotPossible(
                f'[{network_conf.GROUP}] management_subnet_cidr = '
                f'{self._cidr}, but the subnet {parts.describe(subnet)} has '
                f'{subnet.cidr}, which cannot be changed: put the option '
                f'back, or choose another network_name.')

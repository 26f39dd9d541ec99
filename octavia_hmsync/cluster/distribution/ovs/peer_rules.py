# SPDX-License-Identifier: Apache-2.0

"""Admits distributors to the haproxy of members: security group rules.

Octavia's own security group of a load balancer admits only its amphorae to
the peers port. Distributors ask there, too, each from its own address. With
each change of a listener Octavia deletes foreign rules for TCP; it knows the
protocol by its name only, so these rules have its number.
"""

from collections import abc
import ipaddress
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.distribution import groups
from octavia_hmsync.cluster.distribution.ovs import documents
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# TCP, by number: see above.
PROTOCOL = '6'
DESCRIPTION = ('Made by octavia-hmsync: a distributor asks haproxy whether it '
               'hangs.')

Rule = tuple[str, str]


def find_changes(wanted: abc.Iterable[Rule], there: abc.Mapping[str, Rule]
                 ) -> tuple[list[Rule], list[str]]:
    """Return the rules to create, and the ids of rules to delete. Pure.

    :param wanted: (id of a group, address of a distributor) pairs.
    :param there: {id of a rule: such a pair}.
    """
    rest = set(wanted)
    surplus = []
    for rule_id, rule in sorted(there.items()):
        if rule in rest:
            rest.discard(rule)
        else:
            surplus.append(rule_id)
    return sorted(rest), surplus


class PeerRules(groups.GroupsClient):
    """Creates and deletes rules, each time ensure() is called.

    :param connection: an openstack.connection.Connection; made on first use
                       by default.
    """

    def __init__(self, conf: typing.Any, connection: typing.Any = None
                 ) -> None:
        super().__init__(conf, connection)
        # {id of a load balancer: id of its group}
        self._groups: dict[str, str] = {}

    def ensure(self, wanted: abc.Mapping[str, abc.Collection[str]]) -> None:
        """Admit the present distributors, and no former ones.

        :param wanted: {id of a load balancer: addresses of its distributors}.
        :raises CloudUnavailable, CloudRefused: if Neutron does not answer.
        """
        self._groups = {key: group_id for key, group_id
                        in self._groups.items() if key in wanted}
        there = self._list_rules()
        known = {group_id for group_id, _ in there.values()}
        # Look groups without a rule up again: they may have been replaced.
        self._find_groups([key for key in sorted(wanted)
                           if self._groups.get(key) not in known])
        missing, surplus = find_changes(
            ((self._groups[key], str(ipaddress.ip_address(address)))
             for key, addresses in wanted.items() if key in self._groups
             for address in addresses), there)
        for group_id, address in missing:
            self._add(group_id, address)
        for rule_id in surplus:
            with self._reported(f'delete the rule {rule_id}'):
                self._api.delete_security_group_rule(rule_id)

    def _list_rules(self) -> dict[str, Rule]:
        with self._reported('look at rules of security groups'):
            return {rule.id: (rule.security_group_id, str(
                ipaddress.ip_network(rule.remote_ip_prefix).network_address))
                for rule in self._api.security_group_rules(
                    description=DESCRIPTION, **self._scope)
                if rule.remote_ip_prefix}

    def _find_groups(self, load_balancer_ids: list[str]) -> None:
        names = {groups.get_name(key): key for key in load_balancer_ids}
        for group in self.list_groups(names):
            self._groups[names[group.name]] = group.id

    def _add(self, group_id: str, address: str) -> None:
        ip = ipaddress.ip_address(address)
        try:
            self.add_rule(group_id, groups.Rule(
                groups.INGRESS, f'IPv{ip.version}', PROTOCOL,
                documents.PEER_PORT, f'{ip}/{ip.max_prefixlen}'),
                description=DESCRIPTION)
        except exceptions.CloudRefused as e:
            # The group is gone or full; in a full group distributors do not
            # ask these members.
            LOG.debug('A distributor may not call members: %s', e)

# SPDX-License-Identifier: Apache-2.0

"""Who may call the haproxy of members: rules of security groups.

Octavia's own security group of a load balancer lets its amphorae alone call
their peers port. Distributors do so, too, each from its own address. Octavia
deletes rules of TCP that it did not make, with each change of a listener; it
knows TCP by its name alone.
"""

from collections import abc
import ipaddress
import typing

from openstack import exceptions as sdk_exc
from oslo_log import log as logging

from octavia_hmsync import cloud
from octavia_hmsync.cluster.distribution import documents
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# TCP.
PROTOCOL = '6'
DESCRIPTION = ('Made by octavia-hmsync: a distributor asks haproxy whether it '
               'hangs.')
# Of a load balancer's own group, as Octavia calls it.
GROUP_NAME = 'lb-{}'
# Groups that are asked for at once.
_AT_ONCE = 50

Rule = tuple[str, str]


def find_changes(wanted: abc.Iterable[Rule], there: abc.Mapping[str, Rule]
                 ) -> tuple[list[Rule], list[str]]:
    """Return what is to be made, and ids of what is to be deleted. Pure.

    :param wanted: (id of a group, address of a distributor).
    :param there: {id of a rule: the same}.
    """
    rest = set(wanted)
    surplus = []
    for rule_id, rule in sorted(there.items()):
        if rule in rest:
            rest.discard(rule)
        else:
            surplus.append(rule_id)
    return sorted(rest), surplus


class PeerRules(cloud.NeutronClient):
    """Has them be what they are to be, each time it is asked.

    :param conf: the oslo.config object that Octavia reads, parsed.
    :param connection: an openstack.connection.Connection; made when it is
                       needed by default.
    """

    def __init__(self, conf: typing.Any, connection: typing.Any = None
                 ) -> None:
        super().__init__(conf, connection)
        # By load balancer.
        self._groups: dict[str, str] = {}

    def ensure(self, wanted: abc.Mapping[str, abc.Collection[str]]) -> None:
        """Have distributors be admitted, and nobody who was one.

        :param wanted: {id of a load balancer: addresses of its distributors}.
        :raises CloudUnavailable, CloudRefused: if Neutron does not tell.
        """
        self._groups = {key: group_id for key, group_id
                        in self._groups.items() if key in wanted}
        there = self._list_rules()
        known = {group_id for group_id, _ in there.values()}
        # Of a group that has none it may be another one by now.
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
        names = {GROUP_NAME.format(key): key for key in load_balancer_ids}
        ordered = sorted(names)
        for begin in range(0, len(ordered), _AT_ONCE):
            with self._reported('look for security groups'):
                answer = self._api.get('/security-groups', params={
                    'name': ordered[begin:begin + _AT_ONCE],
                    'fields': ['id', 'name'], **self._scope})
                sdk_exc.raise_from_response(answer)
                found = answer.json()['security_groups']
            for group in found:
                self._groups[names[group['name']]] = group['id']

    def _add(self, group_id: str, address: str) -> None:
        ip = ipaddress.ip_address(address)
        try:
            with self._reported(f'add a rule to the security group '
                                f'{group_id}'):
                self._api.create_security_group_rule(
                    security_group_id=group_id, direction='ingress',
                    ether_type=f'IPv{ip.version}', protocol=PROTOCOL,
                    port_range_min=documents.PEER_PORT,
                    port_range_max=documents.PEER_PORT,
                    remote_ip_prefix=f'{ip}/{ip.max_prefixlen}',
                    description=DESCRIPTION, **self._scope)
        except exceptions.CloudRefused as e:
            # Another controller made it, the group is gone, or is full: then
            # nobody asks these members.
            LOG.debug('A distributor may not call members: %s', e)

# SPDX-License-Identifier: Apache-2.0

"""The security groups of clusters, and the rules that these must have.

Octavia makes the group of a load balancer, with a rule for each listener. It
looks at these rules only when a listener changes, and never at those for
what members send.
"""

from collections import abc
import dataclasses
import ipaddress
import typing

from openstack import exceptions as sdk_exc
from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync import cloud
from octavia_hmsync.cluster.db import admission
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Of the ports of distributors.
DISTRIBUTORS = 'octavia-hmsync-distributors'
# Octavia's name for the group of a load balancer.
_NAME = 'lb-{}'
# Groups in one request.
_AT_ONCE = 50
_TCP, _UDP, _SCTP = 'tcp', 'udp', 'sctp'
_NUMBERS = {'6': _TCP, '17': _UDP, '132': _SCTP}
INGRESS, EGRESS = 'ingress', 'egress'
_VERSIONS = ('IPv4', 'IPv6')
_ANYBODY = (None, '0.0.0.0/0', '::/0')


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of a security group; None stands for any.

    :param version: IPv4 or IPv6.
    :param is_of_group: whether it admits the ports of a group only.
    """

    direction: str
    version: str
    protocol: str | None = None
    port: int | None = None
    prefix: str | None = None
    is_of_group: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """A security group as Neutron has it."""

    id: str
    name: str
    rules: frozenset[Rule] = frozenset()


def get_name(load_balancer_id: str) -> str:
    """Return Octavia's name for the group of a load balancer."""
    return _NAME.format(load_balancer_id)


def is_made(name: str) -> bool:
    """Tell whether a group is of a load balancer, or of distributors."""
    return name == DISTRIBUTORS or (
        name.startswith(_NAME.format('')) and
        uuidutils.is_uuid_like(name.removeprefix(_NAME.format(''))))


def choose(there: abc.Iterable[str], needed: abc.Sequence[str],
           foreign: abc.Collection[str] = ()) -> list[str]:
    """Return the groups that a port is to have. Pure.

    What somebody has added stays. Where the tenant chose groups, and one is
    missing, a group that is left may be one that was chosen before.

    :param needed: the group of the load balancer, then those that the tenant
                   has chosen; none if they are not known.
    :param foreign: made for something else: with the group of another load
                    balancer Octavia would delete the port.
    """
    left = set(there)
    if not needed:
        return sorted(left)
    is_kept = len(needed) == 1 or left.issuperset(needed)
    return sorted({*needed, *(left.difference(foreign) if is_kept else ())})


def find_missing_of_distributors(rules: abc.Collection[Rule]) -> list[Rule]:
    """Return the rules that the group of distributors lacks. Pure."""
    return [rule for rule in _make_open((INGRESS, EGRESS))
            if rule not in rules]


def find_missing(needed: admission.Admission, rules: abc.Collection[Rule],
                 is_of_group: bool = True) -> list[Rule]:
    """Return the rules that the group of a load balancer lacks. Pure.

    A peers port may be open to all, as Octavia has an option for that.

    :param is_of_group: whether a peers port is opened to the group only.
    """
    versions = sorted({f'IPv{ipaddress.ip_address(text).version}'
                       for text in needed.addresses})
    wanted = dict.fromkeys(_make_open((EGRESS,)))
    for listener in needed.listeners:
        if not needed.groups:
            wanted.update(dict.fromkeys(_make_clients(listener, versions)))
    missing = [rule for rule in wanted if rule not in rules]
    there = {(rule.version, rule.protocol, rule.port)
             for rule in (*rules, *wanted)
             if rule.direction == INGRESS and rule.prefix in _ANYBODY}
    peer_ports = dict.fromkeys(listener.peer_port for listener
                               in needed.listeners if listener.peer_port)
    return missing + [
        Rule(INGRESS, version, _TCP, port, is_of_group=is_of_group)
        for port in peer_ports for version in versions
        if (version, _TCP, port) not in there]


def _make_open(directions: abc.Iterable[str]) -> list[Rule]:
    return [Rule(direction, version) for direction in directions
            for version in _VERSIONS]


def _make_clients(listener: admission.Listener, versions: abc.Iterable[str]
                  ) -> list[Rule]:
    protocol = listener.protocol.lower()
    if protocol not in (_UDP, _SCTP):
        protocol = _TCP
    if not listener.cidrs:
        return [Rule(INGRESS, version, protocol, listener.port)
                for version in versions]
    networks = [ipaddress.ip_network(cidr, strict=False)
                for cidr in listener.cidrs]
    return [Rule(INGRESS, f'IPv{network.version}', protocol, listener.port,
                 str(network)) for network in networks
            if f'IPv{network.version}' in versions]


def read_rules(rules: abc.Iterable[abc.Mapping[str, typing.Any]]
               ) -> frozenset[Rule]:
    """Return the rules of a group, as Neutron shows them. Pure."""
    return frozenset(Rule(
        rule['direction'], rule['ethertype'],
        _NUMBERS.get(rule['protocol'], rule['protocol']),
        # A range of several ports is none that is looked for.
        rule['port_range_max'] if rule['port_range_min'] ==
        rule['port_range_max'] else -1, rule['remote_ip_prefix'],
        bool(rule['remote_group_id'])) for rule in rules)


class GroupsClient(cloud.NeutronClient):
    """Reads security groups, and adds rules to them."""

    def list_groups(self, values: abc.Iterable[str], by: str = 'name'
                    ) -> list[Group]:
        """Return the groups of the project with these names, or ids.

        :param by: 'name' or 'id'.
        """
        found: list[Group] = []
        ordered = sorted(values)
        for begin in range(0, len(ordered), _AT_ONCE):
            with self._reported('look for security groups'):
                answer = self._api.get('/security-groups', params={
                    by: ordered[begin:begin + _AT_ONCE],
                    'fields': ['id', 'name', 'security_group_rules'],
                    **self._scope})
                sdk_exc.raise_from_response(answer)
                found.extend(
                    Group(group['id'], group['name'],
                          read_rules(group['security_group_rules']))
                    for group in answer.json()['security_groups'])
        return found

    def add_rule(self, group_id: str, rule: Rule, **values: typing.Any
                 ) -> bool:
        """Add a rule to a group.

        :param values: more of the rule, as the SDK takes them.
        :returns: False if it is there: another process may have made the
                  same one a moment ago.
        """
        try:
            with self._reported(f'add a rule to the security group '
                                f'{group_id}'):
                self._api.create_security_group_rule(
                    security_group_id=group_id, direction=rule.direction,
                    ether_type=rule.version, protocol=rule.protocol,
                    port_range_min=rule.port, port_range_max=rule.port,
                    remote_ip_prefix=rule.prefix,
                    remote_group_id=group_id if rule.is_of_group else None,
                    **{**self._scope, **values})
        except exceptions.CloudRefused as e:
            if not isinstance(e.__cause__, sdk_exc.ConflictException):
                raise
            LOG.debug('A rule is not added: %s', e)
            return False
        return True

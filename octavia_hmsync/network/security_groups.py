# SPDX-License-Identifier: Apache-2.0

"""The permitted traffic on the management network.

Rules name security groups, never addresses, so that they do not change with
the controllers.
"""

import dataclasses

from openstack import exceptions as sdk_exc

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network import marks

SSH_PORT = 22
# Port for the logs of amphorae, see [amphora_agent] admin_log_targets.
SYSLOG_PORT = 514

INGRESS = 'ingress'
EGRESS = 'egress'
_ICMP = {4: 'icmp', 6: 'ipv6-icmp'}
# Neutron stores a rule as written, but refuses a second rule that it finds
# equal. Protocol 0 is not "any": OVN permits only protocol 0 then.
_ANYWHERE = ('0.0.0.0/0', '::/0')
_SAME_PROTOCOLS = {'icmpv6': 'ipv6-icmp', '1': 'icmp', '58': 'ipv6-icmp',
                   '6': 'tcp', '17': 'udp', 'any': None}
_ICMP_OF_IPV6 = ('icmp', '1')


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule of a security group; None is any protocol, port or remote."""

    direction: str
    ether_type: str
    protocol: str | None = None
    port: int | None = None
    remote: str | None = None

    def __str__(self):
        what = self.protocol or 'anything'
        if self.port:
            what += f' {self.port}'
        return f'{self.direction} {self.ether_type} {what}'


def wanted_rules(conf, role, ip_version, remote):
    """Return the rules of a group; remote None: a dry run would make it."""
    ether_type = f'IPv{ip_version}'

    def ingress(protocol, port=None):
        return Rule(INGRESS, ether_type, protocol, port, remote)

    rules = [Rule(EGRESS, ether_type)]
    if role == marks.HEALTH_MANAGER_GROUP:
        return rules + [ingress('udp', conf.health_manager.bind_port),
                        ingress('udp', SYSLOG_PORT)]
    rules.append(ingress('tcp', conf.haproxy_amphora.bind_port))
    opts = conf[network_conf.GROUP]
    if opts.allow_ssh:
        rules.append(ingress('tcp', SSH_PORT))
    if opts.allow_icmp:
        rules.append(ingress(_ICMP[ip_version]))
    return rules


def read_rule(raw):
    """Convert a rule of Neutron; None for a kind that is never made here."""
    if (raw.get('remote_ip_prefix') not in (None, '', *_ANYWHERE) or
            raw.get('remote_address_group_id') or
            raw['port_range_min'] != raw['port_range_max']):
        return None
    protocol = raw['protocol']
    if raw['ethertype'] == 'IPv6' and protocol in _ICMP_OF_IPV6:
        protocol = _ICMP[6]
    return Rule(raw['direction'], raw['ethertype'],
                _SAME_PROTOCOLS.get(protocol, protocol),
                raw['port_range_min'], raw['remote_group_id'])


def _describe(raw):
    ports = raw['port_range_min']
    if raw['port_range_max'] != ports:
        ports = f'{ports}-{raw["port_range_max"]}'
    remote = raw['remote_group_id'] or raw['remote_ip_prefix'] or 'anybody'
    return ' '.join(str(word) for word in (
        raw['direction'], raw['ethertype'], raw['protocol'] or 'anything',
        ports, 'with', remote, f'({raw["id"]})') if word is not None)


class Rules:
    """Brings the rules of the groups to their intended state.

    :param remove: whether to remove rules that the plugin made for options
                   which have changed since. Only set it where one
                   configuration is meant: two controllers may differ.
    """

    def __init__(self, conf, connection, changes, parts, remove):
        self._conf = conf
        self._proxy = connection.network
        self._changes = changes
        self._parts = parts
        self._remove = remove

    def ensure(self, part, group, ip_version, remote):
        """Make the rules that a group lacks, and report those of others.

        :raises CloudRefused: if Neutron says no.
        :raises CloudUnavailable: if it does not answer.
        """
        raw_rules = group.security_group_rules if group else []
        there = {read_rule(raw) for raw in raw_rules}
        wanted = wanted_rules(self._conf, part.role, ip_version,
                              remote and remote.id)
        for rule in wanted:
            # A new group, which a dry run does not make, has default rules.
            if rule not in there and (group or rule.direction == INGRESS):
                self._make(part, group, rule)
        for raw in raw_rules:
            if read_rule(raw) not in wanted and not _is_default(raw):
                self._needless(part, group, raw)

    def _make(self, part, group, rule):
        description = self._parts.description(part)

        def create():
            return self._proxy.create_security_group_rule(
                security_group_id=group.id, direction=rule.direction,
                ether_type=rule.ether_type, protocol=rule.protocol,
                port_range_min=rule.port, port_range_max=rule.port,
                remote_group_id=rule.remote, description=description,
                **self._parts.scope)

        def find():
            return list(self._proxy.security_group_rules(
                security_group_id=group.id, description=description,
                direction=rule.direction, protocol=rule.protocol,
                port_range_min=rule.port))

        try:
            self._changes.make(
                f'rule "{rule}" of the {part.title}', create,
                self._proxy.delete_security_group_rule, find,
                group and group.id)
        except exceptions.CloudRefused as e:
            # Another command may have made it a moment ago, or Neutron writes
            # it in a form that we do not know.
            if not _is_there(e):
                raise

    def _needless(self, part, group, raw):
        if self._remove and self._parts.has_made(part, raw['description']):
            self._changes.change(
                f'delete the rule {_describe(raw)} of the {part.title}',
                lambda: self._proxy.delete_security_group_rule(raw['id']))
        elif self._parts.has_made(part, group.description):
            self._parts.notes.append(
                f'The {part.title} has a rule that octavia-hmsync does not '
                f'ask for: {_describe(raw)}. It is left as it is.')


def _is_there(refusal):
    """Tell whether Neutron refuses a rule because the group has it."""
    return (isinstance(refusal.__cause__, sdk_exc.ConflictException) and
            'already exists' in str(refusal))


def _is_default(raw):
    """Tell whether every new group has the rule."""
    return raw['direction'] == EGRESS and read_rule(raw) == Rule(
        EGRESS, raw['ethertype'])

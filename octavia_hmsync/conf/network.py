# SPDX-License-Identifier: Apache-2.0

"""The options of the management network, all in ``[hmsync_network]``.

They have a group of their own, because most clouds already have such a network
and set none of them.
"""

from oslo_config import cfg

GROUP = 'hmsync_network'

# Neutron takes 255 characters, also for the description and the tags that
# carry the name.
_NAME_LENGTH = 140

_network_opts = [
    cfg.StrOpt('network_name', default='lb-mgmt-net',
               max_length=_NAME_LENGTH, regex=r'^[^,/\s]+$',
               help='Name of the amphora management network that '
                    '"octavia-hmsync network ensure" makes. What is made '
                    'carries it in a tag, too: two Octavias that share a '
                    'project need two names, and with another name nothing '
                    'of the old one is found again.'),
    cfg.StrOpt('management_subnet_cidr',
               help='Addresses of the management network, IPv4 or IPv6, '
                    'such as 172.16.0.0/22. Each amphora and each '
                    'controller takes one for as long as it lives. It '
                    'cannot be changed while the network is there.'),
    cfg.StrOpt('amphora_security_group', default='lb-mgmt-sec-grp',
               max_length=_NAME_LENGTH,
               advanced=True,
               help='Name of the security group of the amphorae. It lets '
                    'the health managers\' group in, at [haproxy_amphora] '
                    'bind_port.'),
    cfg.StrOpt('health_manager_security_group',
               default='lb-health-mgr-sec-grp', max_length=_NAME_LENGTH,
               advanced=True,
               help='Name of the security group of the controllers\' ports. '
                    'It lets the amphorae\'s group in, at [health_manager] '
                    'bind_port and at the port of syslog. By group, so that '
                    'it never changes with the controllers.'),
    cfg.BoolOpt('allow_ssh', default=False,
                mutable=True,
                help='Let controllers reach the amphorae by SSH. Needed to '
                     'look into an amphora; an intruder on a controller could '
                     'use it, too.'),
    cfg.BoolOpt('allow_icmp', default=False,
                mutable=True,
                help='Let controllers ping the amphorae. Helps to tell a dead '
                     'network from a dead agent.'),
    cfg.BoolOpt('supply_options', default=False,
                help='Let Octavia use the network and the security group '
                     'for new amphorae, as if [controller_worker] '
                     'amp_boot_network_list and amp_secgroup_list named '
                     'them. Where octavia.conf has one of these options, '
                     'that one stays as it is there.'),
    cfg.IntOpt('reconcile_interval', default=60, min=0,
               advanced=True,
               help='Seconds between two looks at whether the network still '
                    'is as it was made, by one of the housekeepers. A '
                    'smaller value repairs a removed rule or a lost '
                    'security group sooner; each look is some ten requests '
                    'to Neutron. 0 never looks. Without a network that '
                    '"network ensure" made or adopted nothing is looked '
                    'at.'),
    cfg.IntOpt('api_timeout', default=10, min=1, max=120,
               advanced=True,
               help='Seconds to wait for an answer of Neutron or Keystone. '
                    'A larger value tolerates a slow API, but lets a '
                    'command hang for longer if the API is down.'),
]

_port_opts = [
    cfg.StrOpt('binding_host',
               help='Name of this node as its agent gives it to Neutron: '
                    'that of neutron-openvswitch-agent, or hostname among '
                    'the external_ids of Open vSwitch for ovn-controller. '
                    '[DEFAULT] host by default. With a wrong one the port of '
                    'the node never becomes ACTIVE.'),
    cfg.StrOpt('integration_bridge', default='br-int',
               advanced=True,
               help='Bridge of Open vSwitch in which the interface of the '
                    'node, [hmsync] address_interface, is plugged.'),
    cfg.StrOpt('ovsdb_connection',
               advanced=True,
               help='Where ovsdb-server of this node listens, as ovs-vsctl '
                    'takes it: unix:FILE, tcp:ADDRESS:PORT. Its usual place '
                    'by default.'),
    cfg.IntOpt('port_retention', default=86400, min=0,
               advanced=True, mutable=True,
               help='Seconds after which the port of a node is deleted that '
                    'is gone: no keepalive of its health manager, and not '
                    'plugged either. Not before every amphora was seen to '
                    'use a list without its address. A smaller value gives '
                    'addresses back sooner; a node that comes back later '
                    'than that gets another one, which every amphora has to '
                    'be told. When its health manager was deleted, five '
                    'minutes without plugging are enough; 0 waits for '
                    'that.'),
]

OPTS = _network_opts + _port_opts

# SPDX-License-Identifier: Apache-2.0

"""Options of the data plane, in ``[hmsync_distributor]`` of its node."""

from oslo_config import cfg

GROUP = 'hmsync_distributor'

BRIDGE = 'bridge'
INTERFACE = 'interface'

opts = [
    cfg.StrOpt('connect_by', default=BRIDGE,
               choices=((BRIDGE, 'On a network node: a patch port in '
                                 'integration_bridge.'),
                        (INTERFACE, 'In an instance: the network interface '
                                    'that the compute service has plugged, '
                                    'found by its MAC address.')),
               help='How VIPs are connected to the networks of tenants.'),
    cfg.StrOpt('integration_bridge', default='br-int',
               help='Bridge of Open vSwitch that the agent of this node '
                    '(ovn-controller or neutron-openvswitch-agent) connects '
                    'Neutron\'s ports to. With connect_by = interface it is '
                    'made, has no ports, and serves to see that Open vSwitch '
                    'works.'),
    cfg.StrOpt('datapath_type', default='system',
               choices=(('system', 'The kernel\'s.'),
                        ('netdev', 'In user space, as with DPDK.')),
               advanced=True,
               help='Data path of the bridges: that of the integration '
                    'bridge, as two of different kinds cannot be '
                    'connected.'),
    cfg.StrOpt('ovsdb_connection',
               default='unix:/run/openvswitch/db.sock',
               advanced=True,
               help='Where ovsdb-server listens: unix:PATH, tcp:IP:PORT.'),
    cfg.StrOpt('openvswitch_rundir', default='/run/openvswitch',
               advanced=True,
               help='Directory in which ovs-vswitchd has the sockets of its '
                    'bridges (BRIDGE.mgmt), by which flows are programmed.'),
    cfg.IntOpt('openvswitch_timeout', default=10, min=1,
               advanced=True,
               help='Seconds for one call of Open vSwitch. Too few, and a '
                    'node with many bridges that has just been started counts '
                    'as silent; a controller waits that long for a silent '
                    'one.'),
    cfg.IntOpt('max_pins', default=100000, min=1,
               advanced=True,
               help='How many connections of one load balancer are '
                    'remembered one by one because a change of members would '
                    'move them, and as many that began since. Each takes '
                    'about a kilobyte of ovs-vswitchd. Further ones break '
                    'when the change is as old as silent connections are '
                    'kept for; a flood at a load balancer can use up all of '
                    'its own.'),
    cfg.IntOpt('max_copied', default=500, min=1, max=30000,
               advanced=True,
               help='How many ICMP errors, and how many fragments of packets '
                    'other than the first, all members of a load balancer '
                    'get in a second. Each of them becomes as many frames as '
                    'there are members, so more of them are dropped. What '
                    'a path with a smaller MTU needs is one for each '
                    'client.'),
    cfg.IntOpt('max_flows', default=1000000, min=1,
               advanced=True,
               help='How many flows of OpenFlow ovs-vswitchd may have in '
                    'all, with those of the integration bridge ("rules" of '
                    '"ovs-appctl memory/show"). From there on no more '
                    'connections are remembered, of any load balancer of '
                    'this node. A million takes about a gigabyte.'),
]


def register_opts(conf):
    conf.register_opts(opts, GROUP)


def list_opts():
    return [(GROUP, opts)]

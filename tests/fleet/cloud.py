# SPDX-License-Identifier: Apache-2.0

"""A cloud with a simulated fleet, for benchmarks and their short forms."""

import ipaddress

from tests.cloud import cloud
from tests.cloud import database
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import records
from tests.fleet import client

_FIRST_ADDRESS = ipaddress.ip_address('127.240.0.1')

# The plugin as it is installed, where HMSYNC has the intervals of a test.
DEFAULTS = {
    'DEFAULT': {'config_source': 'hmsync'},
    'controller_worker': {'statistics_drivers': 'stats_db, hmsync'},
    'hmsync': {'driver': 'octavia_hmsync', 'allow_loopback': True,
               'canary_size': 0},
}


class FleetCloud(cloud.Cloud):
    """Real controllers and a real MariaDB; the amphorae are one process.

    .fleet is a tests.fleet.client.Fleet, once start_fleet() was called.

    :param size: how many amphorae, each with a load balancer of its own
    :param listeners: whether each has a listener
    :param options: {group: {option: value}} for every controller
    :param upgrade: whether to make the tables of the plugin
    """

    def __init__(self, size, listeners=False, options=None, hmsync=DEFAULTS,
                 upgrade=True, **kwargs):
        self._upgrade = upgrade
        # No other fleet, and no agent, has it on any address.
        self.port = network.free_port()
        super().__init__(
            make_database=database.MariaDBDatabase, hmsync=False,
            sniff=False, options=octavia_conf.merge(
                hmsync, {'haproxy_amphora': {'bind_port': self.port}},
                options), **kwargs)
        self.members = [
            {'id': records.new_id(), 'load_balancer_id': records.new_id(),
             'listener_id': records.new_id() if listeners else None,
             'lb_network_ip': str(_FIRST_ADDRESS + n)} for n in range(size)]

    def _setUp(self):
        super()._setUp()
        rows = {'load_balancer': [], 'vip': [], 'listener': [], 'amphora': []}
        for member in self.members:
            lb_id, listener_id = (member['load_balancer_id'],
                                  member['listener_id'])
            rows['load_balancer'].append(records.load_balancer_row(lb_id))
            rows['vip'].append(records.vip_row(lb_id))
            rows['amphora'].append(records.amphora_row(
                member['id'], member['lb_network_ip'], lb_id))
            if listener_id:
                rows['listener'].append(records.listener_row(listener_id,
                                                             lb_id))
        self.records.insert_all({t: r for t, r in rows.items() if r})
        if self._upgrade:
            self.upgrade_hmsync()

    def start_fleet(self, boot_list, heartbeat_interval, ailments=None,
                    **kwargs):
        """Start the amphorae.

        :param boot_list: the controller_ip_port_list that they boot with
        :param heartbeat_interval: seconds; 0 for no heartbeats
        :param ailments: {amphora id: ailment}, see tests.fleet
        """
        self.fleet = self.useFixture(client.Fleet(
            [{**member, 'controller_ip_port_list': list(boot_list)}
             for member in self.members], self.certificates,
            self.heartbeat_key, self.directory, port=self.port,
            heartbeat_interval=heartbeat_interval, ailments=ailments or {},
            log_directory=self.log_directory, **kwargs))
        return self.fleet

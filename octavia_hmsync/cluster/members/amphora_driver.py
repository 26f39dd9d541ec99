# SPDX-License-Identifier: Apache-2.0

"""Amphora driver ``hmsync``: Octavia's REST driver with clusters.

For load balancers of other topologies each call goes to Octavia's REST
driver. Members of a cluster are told at the same time, with a short time-out,
and too few that take a change are an error.
"""

import functools
import os
import re

from octavia_hmsync.cluster.members import own
from octavia_hmsync.cluster.members import plans
from octavia_hmsync.cluster.members import silent_vip
from octavia_hmsync.cluster.members import update
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync.cluster import work
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync.conf import opts as groups

_TOPOLOGY = re.compile(r'^([ \t]*loadbalancer_topology[ \t]*=).*$',
                       re.MULTILINE)


@functools.cache
def _get_updater(_pid):
    # The driver may be configured where the plugin is not switched on.
    groups.register(compat.CONF)
    context = work.get_context()
    return update.Updater(context.conf, context.engine)


def get_updater():
    """Return the Updater of this process; a service forks.

    :raises InvalidConfiguration, DatabaseUnavailable: as Updater, and
                                                       work.get_context().
    """
    return _get_updater(os.getpid())


class ClusterAmphoraDriver(compat_driver.StockDriver):
    """Octavia's REST driver, extended for clusters."""

    def update(self, loadbalancer):
        if compat_driver.is_cluster(loadbalancer):
            get_updater().update(loadbalancer)
        else:
            super().update(loadbalancer)

    def update_amphora_listeners(self, loadbalancer, amphora,
                                 timeout_dict=None):
        if not compat_driver.is_cluster(loadbalancer):
            super().update_amphora_listeners(loadbalancer, amphora,
                                             timeout_dict=timeout_dict)
        elif amphora is not None and amphora.status != compat.DELETED:
            get_updater().update_amphora(loadbalancer, amphora)

    def delete(self, listener):
        if compat_driver.is_cluster(listener.load_balancer):
            get_updater().delete_listener(listener)
        else:
            super().delete(listener)

    def start(self, loadbalancer, amphora=None, timeout_dict=None):
        self._act('start', loadbalancer, amphora, timeout_dict)

    def reload(self, loadbalancer, amphora=None, timeout_dict=None):
        self._act('reload', loadbalancer, amphora, timeout_dict)

    def _act(self, function, loadbalancer, amphora, timeout_dict):
        if not compat_driver.is_cluster(loadbalancer):
            getattr(super(), function)(loadbalancer, amphora, timeout_dict)
        elif amphora is None:
            get_updater().act(loadbalancer, function)
        else:
            get_updater().act_on(loadbalancer, amphora, function)

    def post_network_plug(self, amphora, port, amphora_network_config):
        """Tell an amphora of a network; see Updater.tell_member()."""
        if compat_driver.is_member(amphora):
            get_updater().tell_member(amphora, 'post_network_plug', port,
                                      amphora_network_config)
        else:
            super().post_network_plug(amphora, port, amphora_network_config)

    def upload_cert_amp(self, amp, pem):
        """Give an agent its certificate; see Updater.tell_amphora()."""
        if compat_driver.is_member(amp):
            get_updater().tell_amphora(amp, 'upload_cert_amp', pem)
        else:
            super().upload_cert_amp(amp, pem)

    def update_amphora_agent_config(self, amphora, agent_config,
                                    timeout_dict=None):
        """Configure an agent; that of a member gets ACTIVE_STANDBY.

        Octavia renders the topology of [controller_worker], and with SINGLE
        an agent announces the VIP.
        """
        if compat_driver.is_member(amphora):
            get_updater().tell_amphora(
                amphora, 'update_amphora_agent_config',
                _TOPOLOGY.sub(rf'\g<1> {peers.ACTIVE_STANDBY}',
                              agent_config))
        else:
            super().update_amphora_agent_config(amphora, agent_config,
                                                timeout_dict=timeout_dict)

    def update_vrrp_conf(self, loadbalancer, amphorae_network_config, amphora,
                         timeout_dict=None):
        """Configure keepalived; on a member it never announces a VIP."""
        if not compat_driver.is_cluster(loadbalancer):
            super().update_vrrp_conf(loadbalancer, amphorae_network_config,
                                     amphora, timeout_dict=timeout_dict)
            return
        config = amphorae_network_config[amphora.id]
        vips = silent_vip.read_vips(loadbalancer, config)
        get_updater().give(amphora, plans.render_requests(
            vips, amphora.vrrp_interface, config['vrrp_port']['mac_address'],
            own.read(config, vips, amphora.vrrp_ip)))

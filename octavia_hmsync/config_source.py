#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The oslo.config driver that switches the plugin on.

``[DEFAULT] config_source = hmsync`` and ``[hmsync] driver = octavia_hmsync``
in octavia.conf, nothing else. oslo.config constructs every installed driver
in every program that uses any, so this module imports little.
"""

import importlib
import sys

from oslo_config import cfg
from oslo_config import sources
from oslo_log import log as logging

from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync.mgmt_network import conf as network_conf

LOG = logging.getLogger(__name__)

_NOTHING = (sources._NoValue, None)


class HMSyncConfigurationSourceDriver(sources.ConfigurationSourceDriver):
    """Opens the source in every process that parses octavia.conf."""

    def open_source_from_opt_group(self, conf, group_name):
        """Open the source, and begin to work if this is a service.

        Never raises: without the plugin Octavia runs as it always did.

        :param conf: the oslo.config object that is being parsed.
        :param group_name: the group named by config_source.
        :returns: an HMSyncConfigurationSource.
        """
        try:
            hmsync_conf.register_opts(conf)
            network_conf.register_opts(conf)
            return HMSyncConfigurationSource(_begin(conf))
        except Exception as e:
            LOG.error('octavia-hmsync is off in this process: %s', e)
            return HMSyncConfigurationSource(None)

    def list_options_for_discovery(self):
        """Return the options of the group, for oslo-config-generator."""
        return list(hmsync_conf.OPTS)


def _begin(conf):
    # Only a program of Octavia's may import Octavia here, and of those
    # octavia-db-manage must not: upgrade_persistence registers an option
    # again that Octavia's own configuration module has.
    if 'octavia.common.config' not in sys.modules:
        return None
    compat = importlib.import_module('octavia_hmsync.compat')
    service = compat.service_name()
    if service is None or conf is not compat.CONF:
        return None
    lifecycle = importlib.import_module(
        'octavia_hmsync.lifecycle').Lifecycle(conf, service)
    lifecycle.begin()
    return lifecycle


class HMSyncConfigurationSource(sources.ConfigurationSource):
    """Supplies ``[health_manager] controller_ip_port_list``.

    And, with ``[hmsync_network] supply_options``, the network and the
    security group that new amphorae boot with.

    :param lifecycle: the Lifecycle of this service, or None.
    """

    def __init__(self, lifecycle):
        self._lifecycle = lifecycle

    def get(self, group_name, option_name, opt):
        """Return an option's value.

        Only asked where neither a file nor an override has one, that is
        until the live value has been read for the first time.
        """
        if self._lifecycle is None:
            return _NOTHING
        value = self._lifecycle.get_value(group_name, option_name)
        if value is None:
            return _NOTHING
        return value, cfg.LocationInfo(cfg.Locations.user, 'octavia-hmsync')

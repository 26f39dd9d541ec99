# SPDX-License-Identifier: Apache-2.0

"""The oslo.config driver that switches the plugin on.

It needs only ``[DEFAULT] config_source = hmsync`` and ``[hmsync] driver =
octavia_hmsync`` in octavia.conf. oslo.config constructs every installed driver
in every program that uses any, so this module imports little.

oslo.config itself ignores a source with an unknown driver, but Octavia's
services log the value of each option when they start, and end at that name. So
likely mistakes, the names of the package and of the group, are entry points of
the driver, too; it works, and logs what is wrong. With any other name the
driver is constructed, but without the configuration, and can do nothing.
"""

import importlib
import sys

from oslo_config import cfg
from oslo_config import sources
from oslo_log import log as logging

from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf

LOG = logging.getLogger(__name__)

_NOTHING = (sources._NoValue, None)


class HMSyncConfigurationSourceDriver(sources.ConfigurationSourceDriver):
    """Opens the source in every process that parses octavia.conf."""

    def open_source_from_opt_group(self, conf, group_name):
        """Open the source, and start the plugin if this is a service.

        Never raises: without the plugin Octavia runs as before.
        """
        try:
            groups.register(conf)
            return HMSyncConfigurationSource(
                _begin(conf, _check_name(conf, group_name)))
        except Exception as e:
            LOG.error('octavia-hmsync is off in this process: %s', e)
            return HMSyncConfigurationSource(None)

    def list_options_for_discovery(self):
        """Return the options of the group, for oslo-config-generator."""
        return list(hmsync_conf.OPTS)


def _check_name(conf, group_name):
    """Return what is wrong with the driver's name, or None."""
    name = conf[group_name].driver
    if name == hmsync_conf.DRIVER:
        return None
    return (f'[{group_name}] driver = {name} is taken for '
            f'{hmsync_conf.DRIVER}: correct it in octavia.conf.')


def _begin(conf, warning):
    """Log warning, start what belongs here; return what supplies options."""
    service = supplier = None
    # Only Octavia's own programs may import Octavia here. Of these,
    # octavia-db-manage must not: upgrade_persistence registers an option
    # again that Octavia's own configuration module has.
    if 'octavia.common.config' in sys.modules:
        compat = importlib.import_module('octavia_hmsync.compat')
        if conf is not compat.CONF:
            # Some part of it reads the same file once more.
            return None
        service = compat.service_name()
        if service is None and compat.is_other_service():
            _neutralize(conf)
        elif service is None:
            # A command is to see what services have.
            supplier = importlib.import_module(
                'octavia_hmsync.network.boot_options').RecordedBootOptions(
                    conf)
    if service is None:
        if warning:
            LOG.warning('octavia-hmsync: %s', warning)
        return supplier
    importlib.import_module('octavia_hmsync.cli.symbols').check()
    lifecycle = importlib.import_module(
        'octavia_hmsync.services.lifecycle').Lifecycle(conf, service, warning)
    lifecycle.begin()
    return lifecycle


def _neutralize(conf):
    """Make options readable in a service without the plugin, too."""
    for problem in groups.neutralize_all(conf):
        LOG.warning('octavia-hmsync: %s', problem)


class HMSyncConfigurationSource(sources.ConfigurationSource):
    """Supplies ``[health_manager] controller_ip_port_list``.

    With ``[hmsync_network] supply_options`` it also supplies the network and
    the security group of new amphorae, and these to commands, too; to services
    ``[nova] availability_zone`` while a drain of a zone names another one.

    :param supplier: has get_value(), a Lifecycle; or None.
    """

    def __init__(self, supplier):
        self._supplier = supplier

    def get(self, group_name, option_name, opt):
        """Return an option's value.

        It is called only while neither a file nor an override has a value,
        which is until the live value has been read for the first time.
        """
        if self._supplier is None:
            return _NOTHING
        value = self._supplier.get_value(group_name, option_name)
        if value is None:
            return _NOTHING
        return value, cfg.LocationInfo(cfg.Locations.user, 'octavia-hmsync')

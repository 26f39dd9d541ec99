# SPDX-License-Identifier: Apache-2.0

"""Entry point for oslo-config-generator and oslo-config-validator."""

from oslo_config import cfg

from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import sync as conf

# oslo.config registers these two itself, the second with any installed driver.
# Here they are listed only for the generator and the validator.
_config_source = cfg.ListOpt(
    'config_source', default=[], sample_default=conf.GROUP,
    help='Groups that name a driver, which supplies values that no file has. '
         'With hmsync among them the plugin is switched on. Set it only '
         'in files of environments where octavia-hmsync is installed.')
_driver = cfg.StrOpt(
    'driver', sample_default=conf.DRIVER,
    help='Name of the plugin as a driver of config_source, with an '
         'underscore. Services do not start with a name that is not '
         'installed.')


def list_opts():
    """Return the options of the plugin and the two that switch it on.

    :returns: a list of (group name, options), see
              https://docs.openstack.org/oslo.config/latest/cli/generator.html
    """
    return [('DEFAULT', [_config_source]), (conf.GROUP, [_driver]),
            *conf.list_opts(), *network_conf.list_opts(),
            *image_conf.list_opts(), *cluster_conf.list_opts()]

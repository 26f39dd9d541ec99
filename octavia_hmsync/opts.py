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

"""Entry point for oslo-config-generator."""

from octavia_hmsync import conf
from octavia_hmsync.mgmt_network import conf as network_conf


def list_opts():
    """Return the options of the plugin.

    :returns: a list of (group name, options), see
              https://docs.openstack.org/oslo.config/latest/cli/generator.html
    """
    return conf.list_opts() + network_conf.list_opts()

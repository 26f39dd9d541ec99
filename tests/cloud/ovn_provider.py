# SPDX-License-Identifier: Apache-2.0

"""A whole Octavia that has ovn-octavia-provider beside the others."""

import os

import fixtures

from tests.cloud import clusters
from tests.cloud import controllers
from tests.cloud import octavia_conf
from tests.cloud import virtualenv
from tests.cloud import waiting

PROVIDER = 'ovn'
# Without what these require: Octavia's environment has most of it, and the
# rest is not imported.
_REQUIREMENTS = ('ovn-octavia-provider>=8.0.0', 'neutron-lib', 'osprofiler',
                 'os-traits')
_SOCKETS = '/var/run/octavia'


class OVNProviderOctavia(clusters.OVNClusterOctavia):
    """Its load balancers are OVN's own; those of clusters may be, too."""

    def _setUp(self):
        library = virtualenv.make_library('ovn-provider', *_REQUIREMENTS)
        self.useFixture(fixtures.EnvironmentVariable(
            'PYTHONPATH', os.pathsep.join(filter(None, (
                str(library), os.environ.get('PYTHONPATH'))))))
        super()._setUp()

    def _start_controllers(self):
        # The statuses that the provider sets come by it; the provider looks
        # for its sockets where Octavia has them by default.
        os.makedirs(_SOCKETS, exist_ok=True)
        agent = self._add(controllers.DriverAgent, 'agent', {
            'driver_agent': {'enabled_provider_agents': PROVIDER}})
        waiting.wait_for(agent.is_ready, 'octavia-driver-agent',
                         processes=[agent])
        super()._start_controllers()

    def _options(self):
        options = super()._options()
        enabled = options['api_settings']['enabled_provider_drivers']
        return octavia_conf.merge(options, {'api_settings': {
            'enabled_provider_drivers': f'{enabled},{PROVIDER}:OVN'}})

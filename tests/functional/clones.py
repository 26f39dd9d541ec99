# SPDX-License-Identifier: Apache-2.0

"""A tenant who clones load balancers, with clouds.yaml and nothing else."""

import json
import os
import subprocess

import fixtures
import yaml

from tests.cloud import process


class Tenant(fixtures.Fixture):
    """Runs "image clone" where there is no octavia.conf.

    :param cloud: an octavia.Octavia.
    """

    def __init__(self, cloud):
        super().__init__()
        self._cloud = cloud

    def _setUp(self):
        self._directory = self.useFixture(fixtures.TempDir()).path
        config = self._cloud.connection.config.config
        with open(os.path.join(self._directory, 'clouds.yaml'), 'w') as file:
            yaml.safe_dump({'clouds': {'tests': {
                'auth_type': 'none', 'auth': {'endpoint': 'none'},
                # The SDK has put the version there that it found.
                **{name: config[name].partition('/v2')[0] for name in (
                    'load_balancer_endpoint_override',
                    'network_endpoint_override')}}}}, file)

    def clone(self, *arguments):
        """Run a command; returns what it shows.

        :raises AssertionError: it failed; with what it printed.
        """
        done = subprocess.run(
            [process.program('octavia-hmsync'), 'image', 'clone', *arguments,
             '--os-cloud', 'tests', '-f', 'json'], cwd=self._directory,
            env=process.environment(self._directory), capture_output=True,
            text=True)
        if done.returncode:
            raise AssertionError(f'{arguments}: {done.stderr}')
        return json.loads(done.stdout)

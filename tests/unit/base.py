# SPDX-License-Identifier: Apache-2.0

"""What the unit tests share."""

import functools
from importlib import metadata
import unittest

import hypothesis
from hypothesis.internal.conjecture import providers
from oslo_config import cfg
from oslotest import base

from tests.cloud import process

# The same examples in each run: what fails once fails again.
hypothesis.settings.register_profile(
    'unit', max_examples=100, deadline=None, derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile('unit')
# It also draws from the constants of all modules of the package that are
# imported: a test that is run alone would have other examples, and each
# process that runs tests reads all of them first.
if hasattr(providers, '_get_local_constants'):
    providers._get_local_constants = lambda: providers._local_constants
# Each call reads the entry points of all packages: 12 ms of a processor, and
# "upgrade check" has seven.
metadata.entry_points = functools.lru_cache(maxsize=None)(
    metadata.entry_points)


def need_program(name):
    """Find a program that no Python package has.

    tools/test.sh installs them all; who runs "tox -e py3" need not.

    :returns: its path.
    :raises SkipTest: if the system lacks it, with where it comes from.
    """
    try:
        return process.system_program(name)
    except RuntimeError as e:
        raise unittest.SkipTest(str(e))


class TestCase(base.BaseTestCase):
    """A test, with a configuration object of its own."""

    def make_conf(self, **groups):
        """Make a parsed configuration with Octavia's and our options.

        :param groups: options to set, a dict for each group.
        :returns: an oslo.config object that nothing else uses.
        """
        # These take seconds to import; a test of pure rules needs none.
        from octavia_hmsync.conf import opts
        from octavia_hmsync.conf import ovn
        from tests.unit import octavia_opts

        conf = cfg.ConfigOpts()
        octavia_opts.register(conf)
        opts.register(conf)
        # As ovn-octavia-provider does.
        conf.register_opts(ovn.OPTS, group=ovn.GROUP)
        conf([], default_config_files=[], default_config_dirs=[])
        for group, options in groups.items():
            for name, value in options.items():
                conf.set_override(
                    name, value, group=None if group == 'DEFAULT' else group)
        return conf

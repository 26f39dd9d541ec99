# SPDX-License-Identifier: Apache-2.0

"""The driver as oslo.config uses it, in a program that is none of Octavia's.

tests/functional/test_services.py has the services.
"""

import logging
import pathlib
import sys
import tempfile
from unittest import mock

from oslo_config import cfg

from octavia_hmsync import compat
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.network import boot_options
from octavia_hmsync.services import config_source
from tests.unit import base


class TestName(base.TestCase):

    def setUp(self):
        super().setUp()
        # Some other test of this process may have it.
        self.enterContext(mock.patch.dict(sys.modules))
        sys.modules.pop('octavia.common.config', None)

    def parse(self, driver, group='hmsync'):
        """Parse a file; returns (what is logged, parsed configuration)."""
        path = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()), 'octavia.conf')
        path.write_text(f'[DEFAULT]\nconfig_source = {group}\n'
                        f'[{group}]\ndriver = {driver}\n')
        conf = cfg.ConfigOpts()
        with self.assertLogs(level=logging.WARNING) as logs:
            # There has to be one for assertLogs.
            logging.getLogger().warning('parsed')
            conf(['--config-file', str(path)], project='other')
        return [r.getMessage() for r in logs.records[1:]], conf

    def is_open(self, conf):
        return hmsync_conf.GROUP in conf and 'poll_interval' in conf[
            hmsync_conf.GROUP]

    def test_right(self):
        logged, conf = self.parse(hmsync_conf.DRIVER)
        self.assertEqual([], logged)
        self.assertTrue(self.is_open(conf))

    def test_taken_for_it(self):
        for name in ('octavia-hmsync', 'hmsync'):
            logged, conf = self.parse(name)
            self.assertEqual([
                f'octavia-hmsync: [hmsync] driver = {name} is taken for '
                f'octavia_hmsync: correct it in octavia.conf.'], logged)
            self.assertTrue(self.is_open(conf))
            self.assertEqual(name, conf.hmsync.driver)

    def test_group_of_another_name(self):
        logged, conf = self.parse('octavia-hmsync', 'health')
        self.assertEqual(1, len(logged))
        self.assertIn('[health] driver = octavia-hmsync', logged[0])
        self.assertTrue(self.is_open(conf))

    def test_unknown(self):
        # Commands say it in other words, and other tests run these.
        logging.getLogger(cfg.__name__).removeFilter(groups._put_in_words)
        logged, conf = self.parse('octavia_hmsink')
        self.assertEqual(1, len(logged))
        self.assertIn("could not load configuration from 'hmsync'",
                      logged[0])
        self.assertFalse(self.is_open(conf))


class TestSupplier(base.TestCase):

    def test_command(self):
        """It sees of the management network what services see."""
        self.enterContext(mock.patch.dict(sys.modules))
        for name in (*compat.SERVICE_MODULES, *compat.OTHER_SERVICE_MODULES):
            sys.modules.pop(name, None)
        self.assertIsInstance(config_source._begin(compat.CONF, None),
                              boot_options.RecordedBootOptions)
        self.assertIsNone(config_source._begin(self.make_conf(), None))

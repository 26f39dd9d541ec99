# SPDX-License-Identifier: Apache-2.0

"""What we take from Octavia is there, and is what we take it for."""

import importlib.util
import os

from keystoneauth1 import loading as ks_loading
from keystoneauth1 import noauth
from octavia.db import models

from octavia_hmsync import compat
from tests.unit import base


class TestCompat(base.TestCase):

    def test_tables(self):
        for table, model in ((compat.AMPHORA, models.Amphora),
                             (compat.AMPHORA_HEALTH, models.AmphoraHealth),
                             (compat.LOAD_BALANCER, models.LoadBalancer),
                             (compat.FLAVOR, models.Flavor),
                             (compat.FLAVOR_PROFILE, models.FlavorProfile),
                             (compat.VIP, models.Vip),
                             (compat.ADDITIONAL_VIP, models.AdditionalVip),
                             (compat.VIP_SECURITY_GROUP,
                              models.VipSecurityGroup),
                             (compat.LISTENER, models.Listener),
                             (compat.SNI, models.SNI),
                             (compat.POOL, models.Pool),
                             (compat.MEMBER, models.Member)):
            self.assertEqual(model.__tablename__, table.name)
            for column in table.c:
                theirs = model.__table__.c[column.name]
                self.assertIsInstance(theirs.type, type(column.type))

    def test_no_request_waits_for_good(self):
        """Unless octavia.conf says for how long."""
        for group in ('neutron', 'service_auth'):
            self.addCleanup(compat.CONF.clear_default, 'timeout', group)
            self.addCleanup(compat.CONF.clear_override, 'timeout', group)
        compat.limit_requests()
        for given, expected in ((None, 60), (7, 7)):
            if given:
                compat.CONF.set_override('timeout', given, 'neutron')
            session = ks_loading.load_session_from_conf_options(
                compat.CONF, 'neutron', auth=noauth.NoAuth())
            self.assertEqual(expected, session.timeout)
        self.assertEqual(60, compat.CONF.service_auth.timeout)

    def test_listener_process(self):
        # Not imported: it would make this process a health manager to us.
        path = importlib.util.find_spec('octavia.cmd.health_manager').origin
        with open(path) as source:
            self.assertIn(f"name='{compat.LISTENER_PROCESS}'", source.read())

    def test_agent_template(self):
        self.assertTrue(os.path.exists(compat.get_agent_template_path()))

    def test_no_service(self):
        self.assertIsNone(compat.service_name())

    def test_driver_and_its_amphora(self):
        driver = compat.load_amphora_driver('amphora_noop_driver')
        amphora = compat.make_driver_amphora('amphora', '192.0.2.1')
        driver.update_amphora_agent_config(amphora, 'configuration')

    def test_image_driver(self):
        driver = compat.load_image_driver('image_noop_driver')
        self.assertEqual(1, driver.get_image_id_by_tag('tag', None))

    def test_jobboard_driver(self):
        driver = compat.load_jobboard_driver()
        for name in ('job_board', 'shutdown'):
            self.assertTrue(callable(getattr(driver, name)), name)
        self.assertTrue(callable(driver.persistence_driver.get_persistence))

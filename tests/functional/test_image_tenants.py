# SPDX-License-Identifier: Apache-2.0

"""Load balancers as tenants have them, in short; see tests/cloud/world.

tests/soak/test_image_tenants.py has them all.
"""

from tests.cloud.world import row
from tests.functional import tenants


class TestTenants(tenants.TenantTestCase):

    def test_tls_two_families_and_sessions(self):
        self.check_rows(('tls-two-families', row.SINGLE),
                        ('app-cookie', row.PAIR))

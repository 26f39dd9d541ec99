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

"""Load balancers as tenants have them, in short; see tests/cloud/world.

tests/soak/test_image_tenants.py has them all.
"""

from tests.cloud.world import row
from tests.functional import tenants


class TestTenants(tenants.TenantTestCase):

    def test_tls_two_families_and_sessions(self):
        self.check_rows(('tls-two-families', row.SINGLE),
                        ('app-cookie', row.PAIR))

# SPDX-License-Identifier: Apache-2.0

"""On SQLite, as in the demo, what the functional tests do on MariaDB."""

from tests.functional import base
from tests.functional import test_amphorae
from tests.functional import test_membership


class TestMembership(test_membership.MembershipCases,
                     base.FunctionalTestCase):
    pass


class TestAmphora(test_amphorae.AmphoraCases, base.FunctionalTestCase):
    pass

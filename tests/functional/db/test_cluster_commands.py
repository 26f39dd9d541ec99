# SPDX-License-Identifier: Apache-2.0

"""What operators order for clusters, in the database that clouds have."""

from tests.functional.db import mariadb
from tests.unit.cluster.cli import test_orders as test_cluster_orders


class TestSet(mariadb.MariaDBMixin, test_cluster_orders.TestSet):
    pass


class TestOrders(mariadb.MariaDBMixin, test_cluster_orders.TestOrders):
    pass


class TestDistributors(mariadb.MariaDBMixin,
                       test_cluster_orders.TestDistributors):
    pass

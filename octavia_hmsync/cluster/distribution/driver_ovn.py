# SPDX-License-Identifier: Apache-2.0

"""Octavia's distributor driver ``hmsync_ovn``."""

from octavia_hmsync.cluster.distribution import driver_base


class HMSyncOVNDriver(driver_base.Distribution):
    """OVN's own load balancers, see cluster.distribution.ovn."""

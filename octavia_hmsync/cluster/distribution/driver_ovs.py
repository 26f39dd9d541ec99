# SPDX-License-Identifier: Apache-2.0

"""Octavia's distributor driver ``hmsync_ovs``."""

from octavia_hmsync.cluster.distribution import driver_base


class HMSyncOVSDriver(driver_base.Distribution):
    """Distributors in Open vSwitch, see octavia_hmsync.distributor."""

# SPDX-License-Identifier: Apache-2.0

"""Octavia's abstract distributor driver, which nothing else needs."""

from octavia.distributor.drivers import driver_base

DistributorDriver = driver_base.DistributorDriver

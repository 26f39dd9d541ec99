# SPDX-License-Identifier: Apache-2.0

"""Octavia's abstract distributor driver, in a module of its own."""

from octavia.distributor.drivers import driver_base

DistributorDriver = driver_base.DistributorDriver

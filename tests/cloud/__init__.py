# SPDX-License-Identifier: Apache-2.0

"""A small Octavia cloud of real processes on loopback addresses.

See cloud.Cloud; everything here is a fixture, so that it serves in a test
(self.useFixture) and in a script (with) alike.
"""

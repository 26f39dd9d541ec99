# SPDX-License-Identifier: Apache-2.0

"""The amphora management network in Neutron."""

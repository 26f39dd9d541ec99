# SPDX-License-Identifier: Apache-2.0

"""Load balancers of OVN, told by its northbound database."""

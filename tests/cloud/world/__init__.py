# SPDX-License-Identifier: Apache-2.0

"""Load balancers as tenants have them; see README.rst, one directory up."""

# SPDX-License-Identifier: Apache-2.0

"""octavia-tempest-plugin, against the whole Octavia of the tests.

See "octavia-tempest-plugin" in doc/source/contributor/tempest.rst.
"""

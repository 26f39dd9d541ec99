# SPDX-License-Identifier: Apache-2.0

"""Commands: octavia-hmsync network ..."""

# SPDX-License-Identifier: Apache-2.0

"""What "octavia-hmsync upgrade check" looks at."""

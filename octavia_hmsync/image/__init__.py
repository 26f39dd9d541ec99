# SPDX-License-Identifier: Apache-2.0

"""Image upgrades: bringing amphorae to the newest image."""

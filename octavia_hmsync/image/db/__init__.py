# SPDX-License-Identifier: Apache-2.0

"""Queries: rollouts, replacements, what they go by."""

# SPDX-License-Identifier: Apache-2.0

"""Queries: clusters, members, distributors."""

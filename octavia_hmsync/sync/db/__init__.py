# SPDX-License-Identifier: Apache-2.0

"""Queries: health managers, lists, uploads, adoption."""

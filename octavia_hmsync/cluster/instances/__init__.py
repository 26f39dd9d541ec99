# SPDX-License-Identifier: Apache-2.0

"""Distributors that controllers boot in Nova."""

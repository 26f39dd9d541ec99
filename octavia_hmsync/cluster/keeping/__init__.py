# SPDX-License-Identifier: Apache-2.0

"""Threads that repair clusters and their distributors."""

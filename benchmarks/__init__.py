# SPDX-License-Identifier: Apache-2.0

"""Benchmarks on simulated fleets and the real services; see README.rst."""

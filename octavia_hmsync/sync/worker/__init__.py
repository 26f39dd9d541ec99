# SPDX-License-Identifier: Apache-2.0

"""Uploading to batches of amphorae, by TaskFlow."""

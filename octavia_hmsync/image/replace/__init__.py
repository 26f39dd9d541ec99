# SPDX-License-Identifier: Apache-2.0

"""Replaces an amphora by one of another image: make before break."""

# SPDX-License-Identifier: Apache-2.0

"""The version of the installed package."""

from importlib import metadata


def version_string() -> str:
    """Return the version from the package's metadata."""
    return metadata.version('octavia-hmsync')

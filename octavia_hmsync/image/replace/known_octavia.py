# SPDX-License-Identifier: Apache-2.0

"""Whether a mode can work with the installed Octavia."""

from octavia_hmsync.compat import changes
from octavia_hmsync.image.db import rollout as rollout_repo


def why_not_replace():
    """Tell why mode replace cannot work, or None; a driver may raise."""
    found = changes.find_of_replace()
    if not found:
        # Imported late: it takes seconds, and needs all of these names.
        from octavia_hmsync.compat import amphora

        found = amphora.find_problems_of_build_flow()
    if not found:
        return None
    return (f'Mode replace does not know the installed Octavia: '
            f'{"; ".join(found)}. Use --mode failover, or install a release '
            f'of octavia-hmsync for this Octavia.')


def why_not_failover():
    """Return why mode failover cannot work with this Octavia, or None."""
    found = changes.find_of_failover()
    if not found:
        return None
    return (f'Mode failover does not know the installed Octavia: '
            f'{"; ".join(found)}. Install a release of octavia-hmsync for '
            f'this Octavia.')


def why_not(mode):
    """Return why a mode cannot work with this Octavia, or None."""
    return (why_not_failover() if mode == rollout_repo.FAILOVER
            else why_not_replace())

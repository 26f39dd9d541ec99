# SPDX-License-Identifier: Apache-2.0

"""Which load balancers have to use mode failover, and why."""

from octavia_hmsync import compat
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding


def why_failover(needs: facts.Needs) -> list[str]:
    """Tell why a load balancer cannot use mode replace.

    :returns: the reasons, in words; empty if it can.
    """
    reasons = []
    if needs.is_direct:
        reasons.append('its VIP is on a network card (SR-IOV), which two '
                       'amphorae cannot have in turns')
    datagrams = sorted(needs.protocols & set(compat.LVS_PROTOCOLS))
    if datagrams:
        reasons.append(f'{" and ".join(datagrams)} listeners were not tried')
    return reasons


def check_mode(known: facts.Facts) -> finding.Finding:
    """Whether it can be replaced without a gap."""
    reasons = why_failover(known.needs)
    if reasons and not outdated.has_cluster(known.load_balancer):
        return finding.warning(
            f'Only mode failover is for it, with a gap of some seconds: '
            f'{"; ".join(reasons)}.')
    return finding.success()

# SPDX-License-Identifier: Apache-2.0

"""Checks of the database, and of the image service's answers."""

from octavia_hmsync.cli import finding
from octavia_hmsync import compat
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import facts


def check_provider(known):
    """Whether it has amphorae of Octavia's own."""
    if outdated.is_of_amphorae(known.load_balancer):
        return finding.success()
    return finding.failure(
        f'Its provider is {known.load_balancer.provider}, which has no '
        f'image: only load balancers of the provider amphora are upgraded.')


def check_state(known):
    """Whether Octavia accepts changes of it."""
    blocks = _get_blocks(known)
    status = known.load_balancer.status
    if outdated.Blocked.ERROR in blocks:
        return finding.failure(
            'It is in ERROR: first bring it to ACTIVE, see "openstack '
            'loadbalancer failover".')
    if outdated.Blocked.PENDING in blocks:
        return finding.failure(
            f'It is {status}: wait until Octavia is done with it. Where that '
            f'never ends, no worker works on it any more.', is_passing=True)
    return finding.success()


def check_topology(known):
    """Whether it is known how many amphorae it should have."""
    if outdated.Blocked.UNKNOWN_TOPOLOGY in _get_blocks(known):
        return finding.failure(
            f'Its topology is {known.load_balancer.topology}: only '
            f'{" and ".join(compat.AMPHORAE_OF_TOPOLOGY)} are upgraded.')
    return finding.success()


def check_amphorae(known):
    """Whether the expected amphorae serve, and there are no others."""
    blocks = _get_blocks(known)
    load_balancer = known.load_balancer
    if outdated.Blocked.AMPHORA_ERROR in blocks:
        broken = ', '.join(a.id for a in load_balancer.amphorae
                           if a.status == compat.ERROR)
        if outdated.has_cluster(load_balancer):
            return finding.failure(
                f'Members of its cluster are in ERROR, and housekeeping '
                f'replaces them: {broken}. Wait until that is over.',
                is_passing=True)
        return finding.failure(
            f'Beside others in ERROR nothing is replaced, and these are: '
            f'{broken}. Fail them over first.')
    if outdated.Blocked.AMPHORA_BUSY in blocks:
        busy = ', '.join(
            f'{a.id} ({"busy" if a.is_busy else a.status})'
            for a in load_balancer.amphorae
            if a.is_busy or a.status != compat.AMPHORA_ALLOCATED)
        return finding.failure(
            f'Amphorae are built or failed over: {busy}. Wait until that is '
            f'over; where it has failed, fail the load balancer over.')
    if outdated.Blocked.AMPHORA_COUNT in blocks:
        return finding.failure(
            f'It has {len(outdated.get_allocated(load_balancer))} amphorae '
            f'that are ALLOCATED, not the '
            f'{compat.AMPHORAE_OF_TOPOLOGY[load_balancer.topology]} of '
            f'{load_balancer.topology}: fail the load balancer over.')
    return finding.success()


def check_image(known):
    """Whether there is an image for the next amphora."""
    if known.target is None:
        return finding.not_checked(
            'Not known while "Image service" is a failure.')
    if known.target.image_id is None:
        return finding.failure(known.target.problem)
    return finding.success(known.target.image_id)


def check_image_ids(known):
    """Whether the images of its amphorae are known."""
    unknown = [amphora.id for amphora in
               outdated.get_allocated(known.load_balancer)
               if amphora.image_id is None]
    if not unknown:
        return finding.success()
    if known.settings.boots_from_volume:
        return finding.warning(
            f'Amphorae boot from a volume, and Cinder did not tell from '
            f'which image the volume was made: {", ".join(unknown)}. It is '
            f'not known whether they are outdated: replace them one by one '
            f'with "octavia-hmsync image replace --force".')
    return finding.warning(
        f'Octavia has no image_id for {", ".join(unknown)}, and cannot tell '
        f'whether they are outdated: replace them one by one with '
        f'"octavia-hmsync image replace --force".')


def _get_blocks(known):
    return outdated.get_blocks(
        known.load_balancer, known.target and known.target.image_id)


def why_failover(needs: facts.Needs) -> list[str]:
    """Return, in words, why mode replace cannot be used; empty if it can."""
    reasons = []
    if needs.is_direct:
        reasons.append('its VIP is on a network card (SR-IOV), which two '
                       'amphorae cannot have in turns')
    if 'SCTP' in needs.protocols:
        reasons.append('SCTP listeners were not tried')
    return reasons


def check_mode(known: facts.Facts) -> finding.Finding:
    """Whether it can be replaced without a gap."""
    reasons = why_failover(known.needs)
    if reasons and not outdated.has_cluster(known.load_balancer):
        return finding.warning(
            f'Only mode failover is for it, with a gap of some seconds: '
            f'{"; ".join(reasons)}.')
    return finding.success()

# SPDX-License-Identifier: Apache-2.0

"""Checks of the requirements of image upgrades."""

from octavia_hmsync.compat import heartbeats
from octavia_hmsync.image.replace import known_octavia
from octavia_hmsync.services.checks import result


def check_replacements(_conf, _engine):
    """Whether amphorae of this Octavia can be replaced."""
    problem = known_octavia.why_not_failover()
    if problem:
        return result.failure(problem)
    try:
        problem = known_octavia.why_not_replace()
    except Exception as e:
        # Any error of the drivers that octavia.conf names.
        return result.not_checked(
            f'The drivers of Octavia, which replacements of amphorae use, '
            f'cannot be made here ({type(e).__name__}): see whether '
            f'octavia-worker starts on this host.')
    if problem:
        return result.warning(problem)
    problem = heartbeats.why_not()
    if problem:
        return result.warning(
            f'What an amphora itself says of its members cannot be read in '
            f'the installed Octavia: {problem}. A new amphora that reaches '
            f'none of them may be taken for a good one. Report it, with the '
            f'release of Octavia.')
    return result.success()

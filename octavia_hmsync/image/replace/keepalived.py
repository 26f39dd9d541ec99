# SPDX-License-Identifier: Apache-2.0

"""Configures keepalived of an amphora to take the VIP from its holder.

Octavia renders ``nopreempt`` and a priority for each role. With that, the
holder keeps the VIP until it falls silent, and the other one waits for seconds
before it takes over.
"""

import re

from octavia_hmsync import exceptions

# The highest priority for a router that does not own the address (RFC 5798,
# 5.2.4), and so the shortest wait when the holder gives up the VIP.
PREFERRED_PRIORITY = 254
_NO_PREEMPT = re.compile(r'^[ \t]*nopreempt[ \t]*\n', re.MULTILINE)
_PRIORITY = re.compile(r'^([ \t]*priority[ \t]+)\d+[ \t]*$', re.MULTILINE)


def prefer(configuration):
    """Return a configuration with which an amphora takes a held VIP.

    It takes the VIP after three advertisements of the holder, which then
    leaves.

    :param configuration: Octavia's configuration of that amphora.
    :returns: text.
    :raises UnknownTemplate: if Octavia renders something else.
    """
    text, preempts = _NO_PREEMPT.subn('', configuration)
    text, priorities = _PRIORITY.subn(rf'\g<1>{PREFERRED_PRIORITY}', text)
    # Not "priority 100" of a virtual rule, which is within a line.
    if (preempts, priorities) != (1, 1):
        raise exceptions.UnknownTemplate(
            'The keepalived configuration of this Octavia is not the one '
            'that octavia-hmsync knows: replace amphorae with --mode '
            'failover, and report it.')
    return text

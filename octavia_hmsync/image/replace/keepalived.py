# SPDX-License-Identifier: Apache-2.0

"""keepalived of an amphora that is to take the VIP from the one that has it.

Octavia renders all with ``nopreempt``, and the priority of a role: who has the
VIP keeps it until it falls silent, and the other one waits for it for seconds.
"""

import re

from octavia_hmsync import exceptions

# The highest of a router that does not own the address (RFC 5798, 5.2.4), and
# so the shortest time to wait when the holder says goodbye.
PREFERRED_PRIORITY = 254
_NO_PREEMPT = re.compile(r'^[ \t]*nopreempt[ \t]*\n', re.MULTILINE)
_PRIORITY = re.compile(r'^([ \t]*priority[ \t]+)\d+[ \t]*$', re.MULTILINE)


def prefer(configuration):
    """Render what makes an amphora take the VIP while another one has it.

    It does so after three advertisements of the holder, which leaves at that
    moment.

    :param configuration: what Octavia renders for that amphora.
    :returns: text.
    :raises UnknownTemplate: if Octavia renders something else.
    """
    text, preempts = _NO_PREEMPT.subn('', configuration)
    text, priorities = _PRIORITY.subn(rf'\g<1>{PREFERRED_PRIORITY}', text)
    # "priority 100" of a virtual rule stands amid a line.
    if (preempts, priorities) != (1, 1):
        raise exceptions.UnknownTemplate(
            'The keepalived configuration of this Octavia is not the one '
            'that octavia-hmsync knows: replace amphorae with --mode '
            'failover, and report it.')
    return text

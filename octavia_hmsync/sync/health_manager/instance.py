# SPDX-License-Identifier: Apache-2.0

"""Which process of octavia-health-manager this is, its children included.

Two processes may run under one ``[DEFAULT] host`` for a while, such as a pod
that moves; the row of that host belongs to one of them.
"""

from oslo_utils import uuidutils

# Made at import, which lifecycle.py does in the main process before it forks:
# Octavia calls the statistics driver in children of a child, and they inherit
# only what exists by then. A process that does not inherit it gets an id
# without a row, and observes nothing.
ID: str = uuidutils.generate_uuid()

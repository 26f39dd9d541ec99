# SPDX-License-Identifier: Apache-2.0

"""Which process of octavia-health-manager this is, its children included.

Two may run under one ``[DEFAULT] host`` for a while, like a pod that moves;
the row of that host is of one of them.
"""

from oslo_utils import uuidutils

# Made with the import, which lifecycle.py does in the main process before it
# forks: the processes in which Octavia calls the statistics driver are
# children of a child, and nothing but what was there before reaches them. One
# that does not inherit it gets an id that no row has, and observes nothing.
ID: str = uuidutils.generate_uuid()

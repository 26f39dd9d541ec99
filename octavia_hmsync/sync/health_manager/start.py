# SPDX-License-Identifier: Apache-2.0

"""What a starting health manager can tell of itself."""

import contextlib
import importlib
import logging
import os
import signal
import time

from oslo_utils import uuidutils

# Seconds until the child gives up, as its news is outdated by then.
_PATIENCE = 20

# Which process this is, its children included: two may run under one [DEFAULT]
# host for a while, such as a pod that moves, and the row of that host belongs
# to one of them. Made at import, which lifecycle.py does in the main process
# before it forks: Octavia calls the statistics driver in children of a child,
# and they inherit only what exists by then. A process that does not inherit it
# gets an id without a row, and observes nothing.
ID: str = uuidutils.generate_uuid()


def tell(conf):
    """Record in the database that this health manager starts.

    A child process does so, and this process does not wait for it. Here a
    connection or a thread would break the listener, which is forked later, and
    a database that is down would delay the start. It is not repeated: the
    keepalive follows.

    :returns: the child's id, for reap(); None if there is none.
    """
    try:
        child = os.fork()
    except OSError:
        return None
    if child:
        return child
    try:
        # Nothing is logged in any process before logging is set up.
        logging.disable(logging.CRITICAL)
        signal.alarm(_PATIENCE)
        with contextlib.suppress(Exception):
            _tell(conf)
    finally:
        os._exit(0)


def _tell(conf):
    # The parent finds and reports any problem with these modules.
    api, hm_repo = map(importlib.import_module, (
        'octavia_hmsync.db.api', 'octavia_hmsync.sync.db.health_manager'))
    hm_repo.set_starting(api.create_engine(conf), conf.host, ID)


def reap(child):
    """Wait for the child of tell()."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def get_age():
    """Return the age of this process, in seconds.

    By a clock that never jumps. The time before it became a health manager,
    such as that of the shell that started it, counts.

    :returns: None if the kernel does not tell.
    """
    try:
        with open('/proc/self/stat', encoding='ascii',
                  errors='replace') as stat:
            # The name, before the parenthesis, may contain blanks.
            ticks = int(stat.read().rpartition(')')[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    started = ticks / os.sysconf('SC_CLK_TCK')
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)

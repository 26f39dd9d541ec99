# SPDX-License-Identifier: Apache-2.0

"""What a health manager that starts can say of it."""

import contextlib
import importlib
import logging
import os
import signal
import time

# The seconds that a child has for what has no use any more after it.
_PATIENCE = 20


def tell(conf):
    """Tell in the database that this health manager starts.

    In a child process, which is not waited for: a connection or a thread of
    this process would break the listener, which it forks later, and a
    database that is away holds up nobody. It is not said again: the keepalive
    goes on with it.

    :param conf: the oslo.config object, being parsed.
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
    # What is wrong with them is for the parent to find, and to say.
    api, hm_repo, instance = map(importlib.import_module, (
        'octavia_hmsync.db.api',
        'octavia_hmsync.sync.db.health_manager',
        'octavia_hmsync.sync.health_manager.instance'))
    hm_repo.set_starting(api.create_engine(conf), conf.host, instance.ID)


def reap(child):
    """Wait for what tell() started.

    :param child: its id.
    """
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def get_age():
    """Return for how many seconds this process has been there.

    By a clock that never jumps; the time before it became a health manager,
    such as that of a shell that starts it, counts.

    :returns: None if the kernel does not tell.
    """
    try:
        with open('/proc/self/stat', encoding='ascii',
                  errors='replace') as stat:
            # What is before may have blanks in it.
            ticks = int(stat.read().rpartition(')')[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    started = ticks / os.sysconf('SC_CLK_TCK')
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)

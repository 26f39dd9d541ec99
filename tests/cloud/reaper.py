# SPDX-License-Identifier: Apache-2.0

"""Ends the process groups of a harness which itself died.

Runs as a script beside the harness and reads '+<pgid>' and '-<pgid>' lines
from its standard input, the other end of which only the harness holds. At its
end (also when the harness was killed hard) it kills the groups still listed.
"""

import os
import signal
import sys


def main():
    # A Ctrl-C or a SIGTERM is for the harness, which then ends its processes
    # in good order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups = set()
    for line in sys.stdin:
        pgid = int(line[1:])
        if line[0] == '+':
            groups.add(pgid)
        else:
            groups.discard(pgid)
    for pgid in groups:
        try:
            os.killpg(pgid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == '__main__':
    main()

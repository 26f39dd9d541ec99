# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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

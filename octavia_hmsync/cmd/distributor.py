# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync-distributor, for network nodes."""

import sys

from oslo_log import log as logging

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import server
from octavia_hmsync import exceptions

_USAGE = 2


def main() -> int:
    """Serve until told to end; return 2 if the configuration is wrong."""
    try:
        conf = distributor_conf.parse(sys.argv[1:])
        logging.setup(conf, distributor_conf.PROG)
        application = server.Server(conf)
        server.check(conf)
    except exceptions.HMSyncException as e:
        print(f'{distributor_conf.PROG}: {e}', file=sys.stderr)
        return _USAGE
    application.run()
    return 0


if __name__ == '__main__':
    sys.exit(main())

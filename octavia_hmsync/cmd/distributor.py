#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""octavia-hmsync-distributor, for network nodes."""

import sys

from oslo_log import log as logging

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import server
from octavia_hmsync import exceptions

_USAGE = 2


def main() -> int:
    """Serve until it is told to end.

    :returns: an exit code; 2 if it cannot begin because of its configuration.
    """
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

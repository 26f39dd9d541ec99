# SPDX-License-Identifier: Apache-2.0

"""Whether this housekeeper can reach the agents of amphorae at all.

Without a route to them every amphora looks silent, and all replacements
would fail.
"""

import threading
import time

from oslo_log import log as logging

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.worker import scout

LOG = logging.getLogger(__name__)


class Way:
    """Probes the agents when there is reason to doubt the route.

    :param probe: called with a list of lb_network_ip; tells whether one of
                  them can be reached.
    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, conf, engine, probe=None, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._probe = probe or (
            lambda ips: agent_client.does_anybody_answer(conf, ips))
        self._clock = clock
        self._name = scout.get_name(scout.HOUSEKEEPING, conf.host)
        # Until the first probe the route is in doubt.
        self._doubt = threading.Event()
        self._doubt.set()
        self._probed_at = float('-inf')
        self._is_blocked = False

    def doubt(self):
        """Probe at the next look: a replacement has failed."""
        self._doubt.set()

    def is_there(self):
        """Tell whether agents can be reached, or no controller can."""
        is_there = self._is_there()
        if self._is_blocked and is_there:
            LOG.info('This controller can reach the agents of amphorae again, '
                     'and replaces amphorae.')
        elif not is_there and not self._is_blocked:
            LOG.warning(
                'This controller cannot reach the agents of amphorae that '
                'others have reached, and replaces none. Check the route to '
                'the amphora management network, its security group and '
                'firewalls: TCP %d of amphorae from this controller.',
                self._conf.haproxy_amphora.bind_port)
        self._is_blocked = not is_there
        return is_there

    def _is_there(self):
        if self._is_left_to_others():
            return False
        if not self._doubt.is_set():
            return True
        now = self._clock()
        if now - self._probed_at < scout.PROBE_INTERVAL:
            # The last result holds until then.
            return not self._is_blocked
        self._probed_at = now
        reachable = uploader_repo.get_reachable(self._engine, self._name)
        if reachable and not self._probe(list(reachable)):
            return False
        self._doubt.clear()
        return True

    def _is_left_to_others(self):
        """Tell whether uploads of lists left these agents to others."""
        uploaders = {each.name: each for each in
                     uploader_repo.get_all(self._engine)
                     if not scout.is_worker(each)}
        own = uploaders.pop(self._name, None)
        return (own is not None and reach.is_suspect(own) and
                bool(reach.get_able(uploaders.values(),
                                    self._conf.hmsync.offline_after)))

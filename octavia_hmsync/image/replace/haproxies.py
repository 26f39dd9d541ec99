# SPDX-License-Identifier: Apache-2.0

"""Whether haproxy keeps running in amphorae whose service is being proven.

No request to an agent tells the age of haproxy, and its list of listeners
comes from the configuration. So this module asks often whether haproxy runs at
all: a haproxy that is restarted does not run in between.
"""

from oslo_log import log as logging

from octavia_hmsync.image.replace import proof
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)


class Haproxies:
    """Counts how often a running haproxy was found not to run."""

    def __init__(self, work):
        self._work = work
        self._runs: dict[str, bool] = {}
        self._breaks: dict[str, int] = {}

    def find_gone(self, evidence, amphora_ids):
        """Ask some agents, each once; return problems in words."""
        if not proof.needs_haproxy(evidence):
            return []
        gone = []
        for amphora_id in amphora_ids:
            amphora = evidence.amphorae.get(amphora_id)
            if amphora is None:
                continue
            try:
                runs = self._work.agent_of(amphora).count_haproxies() > 0
            except work_.AGENT_ERRORS as e:
                # The full check, which follows soon, reports that.
                LOG.debug('%s', e)
                continue
            if not runs:
                gone.append(f'haproxy of amphora {amphora_id} does not run')
                if self._runs.get(amphora_id):
                    self._breaks[amphora_id] = self.count(amphora_id) + 1
            self._runs[amphora_id] = runs
        return gone

    def count(self, amphora_id):
        """Return how often haproxy of an amphora has ended."""
        return self._breaks.get(amphora_id, 0)

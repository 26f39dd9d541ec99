# SPDX-License-Identifier: Apache-2.0

"""Whether haproxy stays, of amphorae that are shown to serve.

No request to an agent tells since when haproxy runs, and its list of listeners
is that of the configuration. So what is left is to look often whether it runs
at all: one that ends and is started again does not, in between.
"""

from oslo_log import log as logging

from octavia_hmsync.image.replace import proof
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)


class Haproxies:
    """Counts how often a haproxy that ran was seen not to run.

    :param work: a Work.
    """

    def __init__(self, work):
        self._work = work
        self._runs: dict[str, bool] = {}
        self._breaks: dict[str, int] = {}

    def find_gone(self, evidence, amphora_ids):
        """Ask some agents, each once.

        :param evidence: an Evidence.
        :param amphora_ids: of whom.
        :returns: what is wrong, in words.
        """
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
                # A look at everything comes soon, and says so.
                LOG.debug('%s', e)
                continue
            if not runs:
                gone.append(f'haproxy of amphora {amphora_id} does not run')
                if self._runs.get(amphora_id):
                    self._breaks[amphora_id] = self.count(amphora_id) + 1
            self._runs[amphora_id] = runs
        return gone

    def count(self, amphora_id):
        """Tell how often that of an amphora ended."""
        return self._breaks.get(amphora_id, 0)

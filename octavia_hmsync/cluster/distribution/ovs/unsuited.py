# SPDX-License-Identifier: Apache-2.0

"""Names clusters that something in Neutron keeps from working, each once."""

import abc

from octavia_hmsync import exceptions
from octavia_hmsync import periodic


class Look(abc.ABC):
    """Looks at all clusters, each time run_once() is called."""

    # What is looked at, the plural, at the beginning of a sentence.
    WHAT: str

    def __init__(self):
        # {id of a cluster: what is unsuitable} that were logged.
        self._said: dict[str, str] = {}

    @abc.abstractmethod
    def _find(self):
        """Return {id of a cluster: what does not suit it}.

        :raises HMSyncException: if that is not known.
        """

    @abc.abstractmethod
    def _log(self, cluster_id, what):
        """Log what does not suit a cluster, and what to do."""

    def run_once(self):
        """Log what does not suit clusters, each once."""
        problem, found = None, {}
        try:
            found = self._find()
        except exceptions.HMSyncException as e:
            problem = f'{self.WHAT} were not checked: {e}'
        periodic.note_problem(self, problem)
        if problem is not None:
            return
        for cluster_id, what in sorted(found.items()):
            if self._said.get(cluster_id) != what:
                self._log(cluster_id, what)
        self._said = found

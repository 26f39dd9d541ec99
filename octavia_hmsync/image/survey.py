# SPDX-License-Identifier: Apache-2.0

"""How many load balancers are outdated, for Prometheus.

Only the image service knows the newest image. It is asked once for each tag,
and much less often than the database is read. If it does not answer, all other
figures are still served.
"""

import collections

from oslo_log import log as logging

from octavia_hmsync import exceptions
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image import target

LOG = logging.getLogger(__name__)

# Seconds between two looks: each asks the image service once for each tag.
INTERVAL = 600

READY = 'READY'
PENDING = 'PENDING'
BLOCKED = 'BLOCKED'
EXCLUDED = 'EXCLUDED'

STATES = (READY, PENDING, BLOCKED, EXCLUDED)


class Survey:
    """Looks at all load balancers, in a constant number of statements."""

    def __init__(self, conf, engine, measure):
        self._conf = conf
        self._engine = engine
        self._measure = measure
        self._problem = None

    def run_once(self):
        """Update the figures; unknown ones are not served.

        If the image service does not answer, one WARNING is logged.
        """
        try:
            counts = self._count()
        except exceptions.CloudUnavailable as e:
            self._measure.on_survey({}, {})
            self._note(str(e))
        except Exception:
            self._measure.on_survey({}, {})
            raise
        else:
            self._measure.on_survey(*counts)
            self._note(None)

    def _count(self):
        targets = target.Targets(self._conf)
        excluded = outdated.Exclusions(
            exclusion_repo.get_all(self._engine),
            exclusion_repo.get_tagged(self._engine))
        verdicts = collections.Counter(dict.fromkeys(outdated.Outdated, 0))
        states = collections.Counter(dict.fromkeys(STATES, 0))
        for load_balancer in inventory.Inventory(
                self._conf, self._engine).get_page():
            image_id = targets.get(load_balancer.tag).image_id
            verdict = outdated.judge(load_balancer, image_id)
            verdicts[verdict] += 1
            if verdict in outdated.TO_REPLACE:
                states[EXCLUDED if excluded.find(load_balancer)
                       else _get_state(load_balancer, image_id)] += 1
        return {str(verdict): number for verdict, number in
                verdicts.items()}, dict(states)

    def _note(self, problem):
        if problem and not self._problem:
            LOG.warning('How many load balancers are outdated is not known '
                        'for the metrics: %s It is tried again every %d s.',
                        problem, INTERVAL)
        elif self._problem and not problem:
            LOG.info('How many load balancers are outdated is known again.')
        self._problem = problem


def _get_state(load_balancer, image_id):
    blocks = outdated.get_blocks(load_balancer, image_id)
    if outdated.Blocked.PENDING in blocks:
        return PENDING
    return BLOCKED if blocks else READY

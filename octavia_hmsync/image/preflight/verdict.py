# SPDX-License-Identifier: Apache-2.0

"""Whether a replacement may begin, as "image check" finds."""

import dataclasses

from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image.preflight import modes
from octavia_hmsync.image.preflight import reading
from octavia_hmsync.image.preflight import run


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The checks' result for one load balancer before its replacement.

    :param failures: what prevents it, in words; empty if nothing does.
    :param warnings: what may prevent it, likewise.
    :param is_passing: whether all failures may pass by themselves.
    :param is_tenants: whether all other failures are for the owner of the
                       load balancer to mend. Then they say nothing about the
                       image, and are no reason to stop the rollout.
    """

    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_passing: bool = False
    is_tenants: bool = False


def judge(conf, engine, load_balancer, targets, mode, is_housekeeper=False):
    """Make all checks of one load balancer.

    :param mode: REPLACE or FAILOVER of image.db.rollout.
    :param is_housekeeper: whether this is the housekeeper that replaces it.
    :returns: a Verdict.
    """
    is_in_process = (mode == rollout_repo.REPLACE and
                     not outdated.has_cluster(load_balancer))
    needs = reading.read_needs(engine, [load_balancer])[load_balancer.id]
    reasons = (modes.why_failover(needs)
               if is_in_process else ())
    if reasons:
        return Verdict((
            f'Mode replace is not for load balancer {load_balancer.id}: '
            f'{"; ".join(reasons)}. Use --mode failover, which has a gap of '
            f'some seconds.',), is_tenants=True)
    # The check of the mode was made above, or the operator chose failover.
    rows = [row for row in run.run_all(
        conf, engine, [load_balancer], targets,
        is_housekeeper and is_in_process) if row.check != run.MODE]
    failures = [row for row in rows
                if row.found.severity is finding.Severity.FAILURE]
    lasting = [row.found for row in failures if not row.found.is_passing]
    return Verdict(
        tuple(f'Load balancer {load_balancer.id} cannot be replaced: '
              f'{row.check}: {row.found.details}' for row in failures),
        tuple(f'{row.found.name}: {row.check}: {row.found.details}'
              for row in rows
              if row.found.severity is finding.Severity.WARNING),
        bool(failures) and not lasting,
        bool(lasting) and all(found.whose is finding.Whose.TENANT
                              for found in lasting))

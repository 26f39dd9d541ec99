# SPDX-License-Identifier: Apache-2.0

"""The checks of "image replace", before anything is written.

The checks of the database come first; the image service and Neutron are asked
only if these succeed.
"""

from octavia_hmsync import exceptions
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding

_FIRST = (('Provider', database.check_provider),
          ('State', database.check_state),
          ('Topology', database.check_topology),
          ('Amphorae', database.check_amphorae))


def find_open(engine, load_balancer_id):
    """Return what waits or runs for a load balancer, or None."""
    return next((each for each in replace_repo.get_of_load_balancer(
        engine, load_balancer_id) if each.state in replace_repo.OPEN_STATES),
        None)


def check_rows(load_balancer):
    """Raise NotPossible if the load balancer's state does not permit it."""
    for name, check in _FIRST:
        found = check(facts.Facts(load_balancer))
        if found.severity is finding.Severity.FAILURE:
            # The other checks report the same state in another way.
            raise _refuse(load_balancer, [(name, found)])


def get_target(targets, load_balancer):
    """Return the target image, or raise NotPossible or CloudUnavailable."""
    found = targets.get(load_balancer.tag)
    if found.image_id is None:
        raise _refuse(load_balancer, [('Image', finding.failure(
            found.problem))])
    return found.image_id


def is_up_to_date(load_balancer, image_id):
    """Tell if nothing is to be done; NotPossible: its image is unknown."""
    judgement = outdated.judge(load_balancer, image_id)
    if judgement is outdated.Outdated.UNKNOWN:
        unknown = ', '.join(a.id for a in
                            outdated.get_allocated(load_balancer)
                            if a.image_id is None)
        raise exceptions.NotPossible(
            f'It is not known whether load balancer {load_balancer.id} is '
            f'outdated, because Octavia has no image_id of {unknown}. With '
            f'--force it is replaced all the same.')
    return judgement is outdated.Outdated.NO


def check_preflight(conf, engine, load_balancer, targets, mode):
    """Return warnings, or raise NotPossible with a line for each failure."""
    from octavia_hmsync.image.preflight import run

    found = run.judge(conf, engine, load_balancer, targets, mode)
    if found.failures:
        raise exceptions.NotPossible('\n'.join(found.failures))
    return list(found.warnings)


def _refuse(load_balancer, failures):
    return exceptions.NotPossible('\n'.join(
        f'Load balancer {load_balancer.id} cannot be replaced: {name}: '
        f'{found.details}' for name, found in failures))

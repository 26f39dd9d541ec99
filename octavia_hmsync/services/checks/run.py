# SPDX-License-Identifier: Apache-2.0

"""All checks of "octavia-hmsync upgrade check", and their order."""

from octavia_hmsync.db import api
from octavia_hmsync.services.checks import clusters
from octavia_hmsync.services.checks import config
from octavia_hmsync.services.checks import controllers
from octavia_hmsync.services.checks import database
from octavia_hmsync.services.checks import images
from octavia_hmsync.services.checks import result

OPTIONS = 'Options'
DATABASE = 'Database'
OCTAVIA = 'Octavia'
TABLES = 'Tables'
SWITCHED_ON = 'Switched on'

_ROWS = (DATABASE, OCTAVIA, TABLES)

# (name, function of the configuration and an engine, names of the checks that
# have to succeed before), in the order in which they are made.
CHECKS = (
    (OPTIONS, config.check_options, ()),
    (DATABASE, database.check_database, ()),
    (OCTAVIA, database.check_octavia, (DATABASE,)),
    (TABLES, database.check_tables, (DATABASE,)),
    (SWITCHED_ON, config.check_switched_on, ()),
    ('Pinned addresses', config.check_pinned, (*_ROWS, SWITCHED_ON)),
    ('Advertised address', config.check_address, (SWITCHED_ON,)),
    ('Health managers', controllers.check_health_managers,
     (*_ROWS, SWITCHED_ON)),
    ('Housekeeping', controllers.check_house_keeping, (*_ROWS, SWITCHED_ON)),
    ('Clocks', controllers.check_clocks, _ROWS),
    ('Heartbeat key', controllers.check_key, (*_ROWS, SWITCHED_ON)),
    ('Amphora certificates', controllers.check_certificates, _ROWS),
    ('Amphora images', controllers.check_images, _ROWS),
    ('Replacements', images.check_replacements, ()),
    ('Clusters', clusters.check_clusters, (OPTIONS, *_ROWS)),
    ('Distributors', clusters.check_distributors, (OPTIONS, *_ROWS)),
)


def run_all(conf, engine):
    """Make all checks that can be made.

    :returns: {name of the check: result.Result}, in their order.
    """
    results: dict[str, result.Result] = {}
    for name, check, needs in CHECKS:
        failed = [need for need in needs
                  if results[need].code is None or
                  results[need].code is result.FAILURE]
        if failed:
            results[name] = result.not_checked(
                f'Not known while "{failed[0]}" is a failure.')
        else:
            results[name] = _make(check, conf, engine)
    return results


def _make(check, conf, engine):
    try:
        return check(conf, engine)
    except Exception as e:
        if not api.is_database_error(e):
            raise
        return result.failure(api.explain(e))

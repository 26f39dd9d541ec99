# SPDX-License-Identifier: Apache-2.0

"""All checks of "octavia-hmsync upgrade check", and their order."""

from concurrent import futures
import functools
import importlib.util
import threading

from oslo_config import cfg
import sqlalchemy as sa

from octavia_hmsync.cli import finding
from octavia_hmsync.cli import symbols
from octavia_hmsync import compat
from octavia_hmsync.compat import heartbeats
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import known_octavia
from octavia_hmsync.services.checks import clusters
from octavia_hmsync.services.checks import config
from octavia_hmsync.services.checks import controllers
from octavia_hmsync.services.checks import settings

OPTIONS = 'Options'
DATABASE = 'Database'
OCTAVIA = 'Octavia'
TABLES = 'Tables'
SWITCHED_ON = 'Switched on'

_ROWS = (DATABASE, OCTAVIA, TABLES)


def check_replacements(_conf, _engine):
    """Whether amphorae of this Octavia can be replaced."""
    problem = known_octavia.why_not_failover()
    if problem:
        return finding.failure(problem)
    try:
        problem = known_octavia.why_not_replace()
    except Exception as e:
        # Any error of the drivers that octavia.conf names.
        return finding.not_checked(
            f'The drivers of Octavia, which replacements of amphorae use, '
            f'cannot be made here ({type(e).__name__}): see whether '
            f'octavia-worker starts on this host.')
    if problem:
        return finding.warning(problem)
    problem = heartbeats.why_not()
    if problem:
        return finding.warning(
            f'What an amphora itself says of its members cannot be read in '
            f'the installed Octavia: {problem}. A new amphora that reaches '
            f'none of them may be taken for a good one. Report it, with the '
            f'release of Octavia.')
    return finding.success()


def check_database(_conf, engine):
    """Whether the database can be used, and is Octavia's."""
    try:
        with engine.connect() as connection:
            schema.check_octavia(connection)
    except exceptions.NotOctavia as e:
        return finding.failure(str(e))
    except Exception as e:
        if not api.is_database_error(e):
            raise
        return finding.failure(api.explain(e))
    return finding.success()


def check_octavia(_conf, engine):
    """Whether Octavia still has what compat uses of it."""
    try:
        symbols.check()
    except exceptions.HMSyncException as e:
        return finding.failure(str(e))
    missing = [name for name in compat.SERVICE_MODULES
               if importlib.util.find_spec(name) is None]
    inspector = sa.inspect(engine)
    for table in (*compat.TABLES, *compat.IMAGE_TABLES,
                  *compat.LOOKUP_TABLES, *compat.ZONE_TABLES):
        known = _get_columns(inspector, table.name)
        missing += [f'{table.name}.{column.name}' for column in table.c
                    if column.name not in known]
    if missing:
        return finding.failure(
            f'This Octavia, or its database, has no {", ".join(missing)}: '
            f'run octavia-db-manage upgrade head, or install a release of '
            f'octavia-hmsync for this Octavia.')
    return finding.success()


def _get_columns(inspector, name):
    try:
        return {column['name'] for column in inspector.get_columns(name)}
    except sa.exc.NoSuchTableError:
        return set()


def check_tables(_conf, engine):
    """Whether the plugin's tables have the schema of this release."""
    with engine.connect() as connection:
        try:
            schema.check(connection)
        except exceptions.SchemaNewer as e:
            return finding.warning(str(e))
        except exceptions.SchemaMissing as e:
            return finding.failure(str(e))
    return finding.success()


def check_network(conf, engine):
    """Whether new amphorae and this node get the management network."""
    found = [*settings.find_network(conf, engine),
             *settings.find_node(conf, engine)]
    return finding.warning(' '.join(found)) if found else finding.success()


# (name, function of the configuration and an engine, names of the checks that
# have to succeed before), in the order in which they are made.
CHECKS = (
    (OPTIONS, config.check_options, ()),
    (DATABASE, check_database, ()),
    (OCTAVIA, check_octavia, (DATABASE,)),
    (TABLES, check_tables, (DATABASE,)),
    (SWITCHED_ON, config.check_switched_on, ()),
    ('Pinned addresses', config.check_pinned, (*_ROWS, SWITCHED_ON)),
    ('Advertised address', config.check_address, (SWITCHED_ON,)),
    ('Management network', check_network, _ROWS),
    ('Health managers', controllers.check_health_managers,
     (*_ROWS, SWITCHED_ON)),
    ('Housekeeping', controllers.check_house_keeping, (*_ROWS, SWITCHED_ON)),
    ('Clocks', controllers.check_clocks, _ROWS),
    ('Heartbeat key', controllers.check_key, (*_ROWS, SWITCHED_ON)),
    ('Amphora certificates', controllers.check_certificates, _ROWS),
    ('Amphora agents', controllers.check_agents, _ROWS),
    ('Files of new amphorae', controllers.check_new_amphorae, (OPTIONS,)),
    ('Amphora images', controllers.check_images, _ROWS),
    ('Replacements', check_replacements, ()),
    ('Clusters', clusters.check_clusters, (OPTIONS, *_ROWS)),
    ('Distributors', clusters.check_distributors, (OPTIONS, *_ROWS)),
)


# What these checks ask, and may wait for.
_ASKED = {
    DATABASE: 'the database',
    'Management network': 'Neutron and Open vSwitch of this host',
    'Housekeeping': 'the database and the jobboard',
    'Amphora agents': 'agents of amphorae',
    'Distributors': 'distributors, Neutron, or the databases of OVN',
}
# Seconds after which an operator is told what is waited for.
_PATIENCE = 1


def run_all(conf, engine, timeout=10, say=lambda line: None):
    """Make all checks that can be made.

    :param timeout: seconds for a check that asks others; one that takes
                    longer is a failure.
    :returns: {name of the check: Finding}, in their order.
    """
    results: dict[str, finding.Finding] = {}
    for name, check, needs in CHECKS:
        failed = [need for need in needs if results[need].severity in
                  (None, finding.Severity.FAILURE)]
        if failed:
            results[name] = finding.not_checked(
                f'Not known while "{failed[0]}" is a failure.')
        else:
            make = functools.partial(_make, check, conf, engine)
            results[name] = (_wait(name, make, timeout, say)
                             if name in _ASKED else make())
    return results


def _wait(name, make, timeout, say):
    """Call a function in a thread, and wait for it only for a time."""
    future: futures.Future = futures.Future()

    def run():
        try:
            future.set_result(make())
        except BaseException as e:
            future.set_exception(e)

    threading.Thread(target=run, name=f'check-{name}', daemon=True).start()
    asked = _ASKED[name]
    patience = min(_PATIENCE, timeout)
    done, _ = futures.wait([future], patience)
    if not done:
        say(f'{name}: waiting for {asked}, {timeout - patience:g} s at most.')
        done, _ = futures.wait([future], timeout - patience)
    if not done:
        return finding.failure(
            f'No answer of {asked} within {timeout:g} s: see whether it can '
            f'be reached from here, or give it more time (--timeout).')
    return future.result()


def _make(check, conf, engine):
    try:
        return check(conf, engine)
    except cfg.Error as e:
        return finding.failure(f'The configuration cannot be used: '
                               f'{groups.describe_error(e)}.')
    except Exception as e:
        if not api.is_database_error(e):
            raise
        return finding.failure(api.explain(e))

# SPDX-License-Identifier: Apache-2.0

"""The groups of options in octavia.conf: registered, listed and checked.

``list_opts()`` is the entry point for oslo-config-generator and
oslo-config-validator. An option of internals is ``advanced`` and not in the
short sample; one that is read whenever it is needed is ``mutable``: SIGHUP is
enough.
"""

import logging
import re

from oslo_config import cfg

from octavia_hmsync.conf import cluster
from octavia_hmsync.conf import image
from octavia_hmsync.conf import network
from octavia_hmsync.conf import sync
from octavia_hmsync import exceptions

# Each has GROUP and OPTS; check() where options depend on each other.
ALL = (sync, network, image, cluster)

# How oslo.config prints the place of a value: a file, or an environment
# variable; nothing for the command line.
_LOCATION = re.compile(
    r"""LocationInfo\(location=.*?, """
    r"""detail=(?P<quote>['"])(?P<detail>.*?)(?P=quote)\)""")

# What it logs of a group of config_source whose driver it does not know.
_WRONG_DRIVER = re.compile(
    r"could not load configuration from '(?P<group>.*?)'\. Value for option "
    rf"driver from {_LOCATION.pattern} is not valid: .*but found "
    r"'(?P<driver>.*)'")

# oslo.config registers these two itself, the second with any installed driver.
# Here they are listed only for the generator and the validator.
_config_source = cfg.ListOpt(
    'config_source', default=[], sample_default=sync.GROUP,
    help='Groups that name a driver, which supplies values that no file has. '
         'With hmsync among them the plugin is switched on. Set it only '
         'in files of environments where octavia-hmsync is installed.')
_driver = cfg.StrOpt(
    'driver', sample_default=sync.DRIVER,
    help='Name of the plugin as a driver of config_source, with an '
         'underscore. Services do not start with a name that is not '
         'installed.')


def list_opts():
    """Return the options of the plugin and the two that switch it on.

    :returns: a list of (group name, options), see
              https://docs.openstack.org/oslo.config/latest/cli/generator.html
    """
    return [('DEFAULT', [_config_source]), (sync.GROUP, [_driver]),
            *((module.GROUP, module.OPTS) for module in ALL)]


def list_short_opts():
    """Return those of list_opts() that an operator sets; see there."""
    return [(group, [opt for opt in opts if not opt.advanced])
            for group, opts in list_opts()]


def register(conf: cfg.ConfigOpts) -> None:
    """Register all groups; doing it twice is harmless."""
    for module in ALL:
        conf.register_opts(module.OPTS, group=module.GROUP)


def explain_wrong_driver() -> None:
    """Have it logged in one line that a driver of config_source is unknown."""
    logging.getLogger(cfg.__name__).addFilter(_put_in_words)


def _put_in_words(record: logging.LogRecord) -> bool:
    """Replace oslo.config's words, with a place in Python's notation."""
    found = _WRONG_DRIVER.match(record.getMessage())
    if found:
        record.msg = (
            f'[{found["group"]}] driver = {found["driver"]} in '
            f'{found["detail"]} is not installed here, and no service of '
            f'Octavia starts with it: correct it. That of octavia-hmsync is '
            f'{sync.DRIVER}.')
        record.args = ()
    return True


def describe_error(error: Exception) -> str:
    """Put oslo.config's error, without Python's notation, in one line."""
    text = _LOCATION.sub(lambda found: found['detail'] or 'the command line',
                         str(error))
    return ' '.join(text.split()).rstrip('.')


def neutralize(conf: cfg.ConfigOpts, group: str,
               opts: list[cfg.Opt]) -> str | None:
    """Find options whose values cannot be read, and make them readable.

    Octavia logs all options at start-up and would end at the first that
    cannot be read. An option of the plugin must not keep a service down.

    :returns: what is wrong and what to do, or None if all can be read.
    """
    problem = None
    for opt in opts:
        try:
            conf[group][opt.dest]
        except (cfg.ConfigFileValueError, cfg.ConfigSourceValueError) as e:
            problem = problem or (
                f'[{group}] {opt.dest} cannot be used: '
                f'{describe_error(e)}. Correct it and '
                f'restart the service.')
            conf.set_override(opt.dest, opt.default, group=group)
    return problem


def neutralize_all(conf: cfg.ConfigOpts) -> list[str]:
    """Neutralize all groups; return what is wrong and what to do."""
    problems = [neutralize(conf, module.GROUP, module.OPTS) for module in ALL]
    return [problem for problem in problems if problem]


def check(conf, *modules):
    """Check modules (default ALL), or raise InvalidConfiguration."""
    for module in modules or ALL:
        problem = neutralize(conf, module.GROUP, module.OPTS)
        if problem:
            raise exceptions.InvalidConfiguration(problem)
        if hasattr(module, 'check'):
            module.check(conf)

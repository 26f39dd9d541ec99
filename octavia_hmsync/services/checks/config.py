# SPDX-License-Identifier: Apache-2.0

"""Checks of octavia.conf of this host.

oslo.config ignores unknown names of options silently.
"""

import dataclasses
import difflib
import glob
from importlib import metadata
import os
import re

from oslo_config import cfg
from oslo_db import exception as db_exc

from octavia_hmsync import addresses as addr
from octavia_hmsync.cli import finding
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.services.checks import settings
from octavia_hmsync.sync import controller_list
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.health_manager import address

STATISTICS_DRIVER = 'hmsync'

# Known names by group. oslo.config registers "driver" itself, and only if
# config_source names the group.
OWN = {module.GROUP: frozenset(opt.dest for opt in module.OPTS)
       for module in groups.ALL}
OWN[hmsync_conf.GROUP] |= {'driver'}
# Groups of Octavia with options that the plugin uses, and that an operator may
# look for in the plugin's own groups.
_NEIGHBOURS = ('health_manager', 'controller_worker', 'haproxy_amphora',
               'database')

# The group of the distributor process, which does not read octavia.conf.
_OF_NODES = 'hmsync_distributor'

# Similarity, from 0 to 1, from which a name counts as misspelt. Other
# projects' groups must not count as ours.
_ALIKE_OPTION = 0.6
_ALIKE_GROUP = 0.75

_VARIABLE = re.compile(r'OS_(.+?)__(.+)')


@dataclasses.dataclass(frozen=True)
class Unknown:
    """An unknown name.

    :param option: the option; None if the group itself is unknown.
    :param meant: the probable name, None if nothing is similar.
    """

    source: str
    group: str
    option: str | None
    meant: str | None

    def __str__(self):
        name = f'[{self.group}] {self.option or ""}'.strip()
        meant = f' (meant: {self.meant}?)' if self.meant else ''
        return f'{name}{meant} in {self.source}'


def read(conf, environ=None):
    """Return [(source, {group: {option: values}})]; the last one counts."""
    # Of --config-dir, otherwise of the default directories.
    directories = conf.config_dirs or conf.config_dir or ()
    paths = [*(conf.config_file or ()), *(
        path for directory in directories for path in sorted(glob.glob(
            os.path.join(os.path.expanduser(directory), '*.conf'))))]
    found = []
    for path in paths:
        sections: dict = {}
        cfg.ConfigParser(os.path.expanduser(path), sections).parse()
        found.append((path, sections))
    sections = {}
    for name, value in (os.environ if environ is None else environ).items():
        match = _VARIABLE.fullmatch(name)
        if match:
            group, option = match.group(1).lower(), match.group(2).lower()
            sections.setdefault(group, {})[option] = [value]
    return [*found, ('the environment', sections)]


def find_unknown(conf, sources):
    """Find unknown names, in groups that are ours or look similar."""
    unknown = []
    for source, sections in sources:
        for group, options in sections.items():
            # oslo.config ignores the case of groups.
            own = OWN.get(group.lower())
            if own is not None:
                unknown += [Unknown(source, group, option,
                                    _find_option(conf, group.lower(), option))
                            for option in options if option not in own]
            elif group not in conf and group.lower() not in conf:
                meant = _find_group(group)
                if _plain(group) == _OF_NODES:
                    unknown.append(Unknown(source, group, None, 'in '
                                           'distributor.conf of its node'))
                elif meant:
                    unknown.append(Unknown(source, group, None,
                                           f'[{meant}]'))
    return unknown


def find_value(sources, group, option):
    """Return the text of an option that takes effect; None without any."""
    values = [options[option][-1] for _source, sections in sources
              for name, options in sections.items()
              if name.lower() == group.lower() and option in options]
    return values[-1] if values else None


def _find_group(group):
    name = _plain(group)
    alike = difflib.get_close_matches(name, OWN, n=1, cutoff=_ALIKE_GROUP)
    if not alike and hmsync_conf.GROUP in name:
        alike = difflib.get_close_matches(name, OWN, n=1, cutoff=0)
    return alike[0] if alike else None


def _find_option(conf, group, option):
    """Find the probable name, first in this group."""
    name = _plain(option)
    if name in OWN[group]:
        return name
    for other in (*(own for own in OWN if own != group), *_NEIGHBOURS):
        if name in OWN.get(other, ()) or (
                other in _NEIGHBOURS and name in conf[other]):
            return f'[{other}] {name}'
    for other in (group, *(own for own in OWN if own != group)):
        alike = difflib.get_close_matches(name, OWN[other], n=1,
                                          cutoff=_ALIKE_OPTION)
        if alike:
            return alike[0] if other == group else f'[{other}] {alike[0]}'
    return None


def _plain(name):
    return name.lower().replace('-', '_')


def check_options(conf, _engine):
    """Whether all options are known, and their values can be used."""
    wrong = []
    for module in groups.ALL:
        try:
            groups.check(conf, module)
        except exceptions.InvalidConfiguration as e:
            wrong.append(str(e))
    if wrong:
        wrong.append('The plugin is off until then.')
    unreadable = settings.find_unreadable(conf)
    wrong += unreadable or settings.find_ports(conf)
    notes = settings.find_useless(conf) if not wrong else []
    unknown = find_unknown(conf, read(conf))
    if unknown:
        notes.append(
            f'These options are not known: {", ".join(map(str, unknown))}. '
            f'Correct or remove what is misspelt.')
    if wrong:
        return finding.failure(' '.join(wrong + notes))
    return finding.warning(' '.join(notes)) if notes else finding.success()


def check_switched_on(conf, _engine):
    """Whether octavia.conf switches the plugin on."""
    installed = {point.name: point.module for point in
                 metadata.entry_points(group='oslo.config.driver')}
    drivers = {}
    for group in conf.config_source:
        try:
            drivers[group] = conf[group].driver
        except cfg.ConfigFileValueError:
            value = find_value(read(conf), group,
                               'driver')
            return finding.failure(
                f'[{group}] driver = {value} is not installed here, with '
                f'which no service of Octavia starts: that of octavia-hmsync '
                f'is called {hmsync_conf.DRIVER}. Correct it.')
    own = {group: driver for group, driver in drivers.items()
           if installed.get(driver) == installed[hmsync_conf.DRIVER]}
    if not own:
        return finding.failure(
            f'octavia.conf does not switch the plugin on: set [DEFAULT] '
            f'config_source = hmsync and [hmsync] driver = '
            f'{hmsync_conf.DRIVER}.')
    for group, driver in own.items():
        if driver != hmsync_conf.DRIVER:
            return finding.warning(
                f'[{group}] driver = {driver} is taken for '
                f'{hmsync_conf.DRIVER}: correct it in octavia.conf.')
    if STATISTICS_DRIVER not in conf.controller_worker.statistics_drivers:
        return finding.warning(
            f'[controller_worker] statistics_drivers has no '
            f'{STATISTICS_DRIVER}: add it, or it is not seen which amphorae '
            f'use their list.')
    found = settings.find_statistics(conf)
    return finding.warning(found[0]) if found else finding.success()


def check_pinned(conf, engine):
    """Whether addresses are pinned as long as needed, and no longer."""
    listed = controller_list.PinnedAddresses(conf)
    pinned = listed.get()
    if listed.unreadable:
        return finding.warning(
            f'[health_manager] controller_ip_port_list has '
            f'{", ".join(sorted(listed.unreadable))}, which is no address '
            f'for heartbeats and is ignored: write IPV4:PORT or [IPV6]:PORT.')
    newest = generation_repo.get_newest(engine)
    if newest is not None:
        return finding.warning(
            f'octavia.conf lists {addr.join_list(pinned)}. These stay in '
            f'every list, and count as alive. When all health managers have '
            f'registered, remove controller_ip_port_list.'
        ) if pinned else finding.success()
    if pinned:
        return finding.success(
            f'{addr.join_list(pinned)} will be in the first list, as it '
            f'should be. Remove controller_ip_port_list when all health '
            f'managers have registered and the list is published.')
    amphorae = amphora_repo.count(engine, 0).amphorae
    if not amphorae:
        return finding.success('No list was published yet, and no amphora has '
                               'a list to lose.')
    return finding.warning(
        f'octavia.conf has no controller_ip_port_list, and no list was '
        f'published yet: {amphorae} amphorae would get a first list without '
        f'the health managers that have not registered by then. Set it to '
        f'the addresses of all of them, on every controller, and remove it '
        f'after the roll-out.')


def check_address(conf, engine):
    """Whether a health manager could register here."""
    opts = conf.hmsync
    try:
        own = addr.check_advertised(address.load_driver(conf).get(),
                                    opts.allowed_networks,
                                    opts.allow_loopback)
        settings.check_bind_ip(conf.health_manager.bind_ip)
        found = [*settings.find_zone(conf, engine),
                 *address.FurtherAddresses(conf).get(own)[1]]
    except exceptions.HMSyncException as e:
        return finding.warning(f'A health manager on this host would not '
                               f'register: {e}')
    except db_exc.DBError as e:
        # Some address drivers read it from the database.
        return finding.not_checked(f'The address of this host is not to be '
                                   f'had from the database: {api.describe(e)}')
    return finding.warning(found[0]) if found else finding.success()

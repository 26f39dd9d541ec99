# SPDX-License-Identifier: Apache-2.0

"""Finds unknown names of options in octavia.conf.

oslo.config ignores them silently.
"""

import dataclasses
import difflib
import glob
import os
import re

from oslo_config import cfg

from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf

# Known names by group. oslo.config registers "driver" itself, and only if
# config_source names the group.
OWN = {module.GROUP: frozenset(opt.dest for opt in module.OPTS)
       for module in groups.ALL}
OWN[hmsync_conf.GROUP] |= {'driver'}
# Groups of Octavia with options that the plugin uses, and that an operator may
# look for in the plugin's own groups.
_NEIGHBOURS = ('health_manager', 'controller_worker', 'haproxy_amphora',
               'database')

# Similarity, from 0 to 1, from which a name counts as misspelt. Other
# projects' groups must not count as ours.
_ALIKE_OPTION = 0.6
_ALIKE_GROUP = 0.75

_VARIABLE = re.compile(r'OS_(.+?)__(.+)')


@dataclasses.dataclass(frozen=True)
class Unknown:
    """An unknown name.

    :param source: the file that has it.
    :param group: the name of the group, as in the file.
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
    """Read what oslo.config has read: files, and the environment.

    :param environ: the environment, of this process by default.
    :returns: a list of (source, {group: {option: list of values}}); a later
              source overrides an earlier one.
    """
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
    """Find unknown names, in groups that are ours or look similar.

    :param sources: what read() returns.
    :returns: a list of Unknown.
    """
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
                if meant:
                    unknown.append(Unknown(source, group, None,
                                           f'[{meant}]'))
    return unknown


def find_value(sources, group, option):
    """Return the text that an option has in the files.

    :param sources: what read() returns.
    :returns: the text that takes effect; None without any.
    """
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

# SPDX-License-Identifier: Apache-2.0

"""Where OVN's databases are: ``[ovn]`` of ovn-octavia-provider.

Clouds whose Neutron is ML2/OVN have these options in octavia.conf. They are
not registered with Octavia's configuration: the provider does that in
octavia-api, and fails if others with the same names are there.
"""

import dataclasses
import functools
import glob
import os

from oslo_config import cfg

GROUP = 'ovn'

NORTHBOUND = 'nb'
SOUTHBOUND = 'sb'
_FILES = ('private_key', 'certificate', 'ca_cert')
_CONNECTION = 'ovn_{}_connection'

OPTS = [
    option for database in (NORTHBOUND, SOUTHBOUND) for option in (
        cfg.ListOpt(_CONNECTION.format(database), default=[]),
        *(cfg.StrOpt(f'ovn_{database}_{name}') for name in _FILES))]


@dataclasses.dataclass(frozen=True)
class Database:
    """How one of the databases is reached.

    :param remotes: its members, as OVN writes them.
    :param is_set: whether octavia.conf names them; else it is where OVN has
                   it on the same host.
    :param files: {option: the file of the certificate or key, or None}.
    """

    remotes: tuple[str, ...]
    is_set: bool
    files: dict[str, str | None]


def name_connection(database: str) -> str:
    """Return the option that has the address of a database, for messages."""
    return f'[{GROUP}] {_CONNECTION.format(database)}'


def read(conf: cfg.ConfigOpts, database: str) -> Database:
    """Return the Database, NORTHBOUND or SOUTHBOUND, of a configuration."""
    option = _CONNECTION.format(database)
    if GROUP in conf and option in conf[GROUP]:
        group = conf[GROUP]
        is_set = _is_set(conf, option)
    else:
        group = _parse(*_find_files(conf))
        is_set = True
    found = tuple(group[option]) if is_set else ()
    return Database(
        found or (f'unix:/var/run/ovn/ovn{database}_db.sock',), bool(found),
        {f'ovn_{database}_{name}': group[f'ovn_{database}_{name}'] or None
         for name in _FILES})


def _is_set(conf: cfg.ConfigOpts, option: str) -> bool:
    """Tell whether a value is the operator's: the provider has defaults."""
    found = conf.get_location(option, GROUP)
    return (found is not None and
            found.location is not cfg.Locations.opt_default)


def _find_files(conf: cfg.ConfigOpts) -> tuple[tuple[str, ...],
                                               tuple[str, ...], tuple]:
    if 'config_file' not in conf:
        # It was not parsed yet.
        return (), (), ()
    files = tuple(conf.config_file or ())
    directories = tuple(conf.config_dirs or conf.config_dir or ())
    paths = [*files, *(path for directory in directories for path in
                       glob.glob(os.path.join(directory, '*.conf')))]
    # With what changes when a file does.
    return files, directories, tuple(
        os.stat(path).st_mtime_ns for path in paths)


@functools.lru_cache(maxsize=4)
def _parse(files: tuple[str, ...], directories: tuple[str, ...],
           _changed_at: tuple) -> cfg.ConfigOpts.GroupAttr:
    conf = cfg.ConfigOpts()
    conf.register_opts(OPTS, group=GROUP)
    conf([], default_config_files=list(files),
         default_config_dirs=list(directories))
    return conf[GROUP]

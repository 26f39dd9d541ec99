# SPDX-License-Identifier: Apache-2.0

"""Checks of octavia.conf of this host."""

from importlib import metadata
import ipaddress
import socket

from oslo_config import cfg
from oslo_db import exception as db_exc

from octavia_hmsync import addresses as addr
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.services.checks import option_names
from octavia_hmsync.services.checks import result
from octavia_hmsync.sync import controller_list
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.health_manager import address

STATISTICS_DRIVER = 'hmsync'


def check_options(conf, _engine):
    """Whether all options are known, and their values can be used."""
    wrong = []
    for module in (hmsync_conf, network_conf, image_conf, cluster_conf):
        try:
            module.check(conf)
        except exceptions.InvalidConfiguration as e:
            wrong.append(str(e))
    unknown = option_names.find_unknown(conf, option_names.read(conf))
    ignored = (
        f'These options are not known: {", ".join(map(str, unknown))}. '
        f'Correct or remove what is misspelt.')
    if wrong:
        return result.failure(' '.join(
            [*wrong, 'The plugin is off until then.',
             *([ignored] if unknown else [])]))
    return result.warning(ignored) if unknown else result.success()


def check_switched_on(conf, _engine):
    """Whether octavia.conf switches the plugin on."""
    installed = {point.name: point.module for point in
                 metadata.entry_points(group='oslo.config.driver')}
    drivers = {}
    for group in conf.config_source:
        try:
            drivers[group] = conf[group].driver
        except cfg.ConfigFileValueError:
            value = option_names.find_value(option_names.read(conf), group,
                                            'driver')
            return result.failure(
                f'[{group}] driver = {value} is not installed here, with '
                f'which no service of Octavia starts: that of octavia-hmsync '
                f'is called {hmsync_conf.DRIVER}. Correct it.')
    own = {group: driver for group, driver in drivers.items()
           if installed.get(driver) == installed[hmsync_conf.DRIVER]}
    if not own:
        return result.failure(
            f'octavia.conf does not switch the plugin on: set [DEFAULT] '
            f'config_source = hmsync and [hmsync] driver = '
            f'{hmsync_conf.DRIVER}.')
    for group, driver in own.items():
        if driver != hmsync_conf.DRIVER:
            return result.warning(
                f'[{group}] driver = {driver} is taken for '
                f'{hmsync_conf.DRIVER}: correct it in octavia.conf.')
    if STATISTICS_DRIVER not in conf.controller_worker.statistics_drivers:
        return result.warning(
            f'[controller_worker] statistics_drivers has no '
            f'{STATISTICS_DRIVER}: add it, or it is not seen which amphorae '
            f'use their list.')
    return result.success()


def check_pinned(conf, engine):
    """Whether addresses are pinned as long as needed, and no longer."""
    pinned = controller_list.PinnedAddresses(conf).get()
    newest = generation_repo.get_newest(engine)
    if newest is not None:
        return result.warning(
            f'octavia.conf lists {addr.join_list(pinned)}. These stay in '
            f'every list, and count as alive. When all health managers have '
            f'registered, remove controller_ip_port_list.'
        ) if pinned else result.success()
    if pinned:
        return result.success(
            f'{addr.join_list(pinned)} will be in the first list, as it '
            f'should be. Remove controller_ip_port_list when all health '
            f'managers have registered and the list is published.')
    amphorae = amphora_repo.count(engine, 0).amphorae
    if not amphorae:
        return result.success('No list was published yet, and no amphora has '
                              'a list to lose.')
    return result.warning(
        f'octavia.conf has no controller_ip_port_list, and no list was '
        f'published yet: {amphorae} amphorae would get a first list without '
        f'the health managers that have not registered by then. Set it to '
        f'the addresses of all of them, on every controller, and remove it '
        f'after the roll-out.')


def check_address(conf, _engine):
    """Whether a health manager could register here."""
    opts = conf.hmsync
    try:
        addr.check_advertised(address.load_driver(conf).get(),
                              opts.allowed_networks, opts.allow_loopback)
        _check_bind_ip(conf.health_manager.bind_ip)
    except exceptions.HMSyncException as e:
        return result.warning(f'A health manager on this host would not '
                              f'register: {e}')
    except db_exc.DBError as e:
        # Some address drivers read it from the database.
        return result.not_checked(f'The address of this host is not to be '
                                  f'had from the database: {api.describe(e)}')
    return result.success()


def _check_bind_ip(bind_ip):
    family = (socket.AF_INET6 if ipaddress.ip_address(bind_ip).version == 6
              else socket.AF_INET)
    try:
        # At any port: a health manager may be using its own.
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((str(bind_ip), 0))
    except OSError as e:
        raise exceptions.InvalidAddress(
            f'nothing can listen at [health_manager] bind_ip = {bind_ip} '
            f'({e.strerror}): set it to an address of this host.') from e

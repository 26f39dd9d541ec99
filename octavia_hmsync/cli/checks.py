#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What keeps the plugin from working as it should, before it shows.

The checks of "octavia-hmsync upgrade check", in the form of oslo.upgradecheck.
"""

import importlib.util
import ipaddress
import socket

from oslo_db import exception as db_exc
from oslo_upgradecheck import upgradecheck
from packaging import version as packaging_version
import sqlalchemy as sa

from octavia_hmsync.amphora import heartbeat_key
from octavia_hmsync.cli import symbols
from octavia_hmsync import compat
from octavia_hmsync import controller_list
from octavia_hmsync.db import api
from octavia_hmsync.db.repositories import doubt as doubt_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.db.repositories import house_keeper as keeper_repo
from octavia_hmsync.db.repositories import keys as keys_repo
from octavia_hmsync.db.repositories import uploader as uploader_repo
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from octavia_hmsync.health_manager import address
from octavia_hmsync.membership import addresses as addr
from octavia_hmsync.membership import adoption
from octavia_hmsync.membership import member as mem
from octavia_hmsync.membership import reach
from octavia_hmsync.membership import timing
from octavia_hmsync import version

DRIVER = 'octavia_hmsync'
STATISTICS_DRIVER = 'hmsync'

_GOOD = upgradecheck.Result(upgradecheck.Code.SUCCESS)


def _warning(details):
    return upgradecheck.Result(upgradecheck.Code.WARNING, details)


def _failure(details):
    return upgradecheck.Result(upgradecheck.Code.FAILURE, details)


def _check_bind_ip(bind_ip):
    family = (socket.AF_INET6 if ipaddress.ip_address(bind_ip).version == 6
              else socket.AF_INET)
    try:
        # At any port: at its own, the health manager may be running.
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((str(bind_ip), 0))
    except OSError as e:
        raise exceptions.InvalidAddress(
            f'nothing can listen at [health_manager] bind_ip = {bind_ip} '
            f'({e.strerror}): set it to an address of this host.') from e


class Checks(upgradecheck.UpgradeCommands):
    """All checks, of this host's octavia.conf and of the database.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    """

    def __init__(self, conf, engine):
        self._conf = conf
        self._engine = engine
        self._version = packaging_version.Version(version.version_string())

    def _check_octavia(self):
        """Whether Octavia still has what compat takes from it."""
        missing, _broken = symbols.find_problems()
        missing += [name for name in compat.SERVICE_MODULES
                    if importlib.util.find_spec(name) is None]
        inspector = sa.inspect(self._engine)
        for table in (compat.AMPHORA, compat.AMPHORA_HEALTH,
                      compat.LOAD_BALANCER):
            known = ({column['name'] for column in
                      inspector.get_columns(table.name)}
                     if inspector.has_table(table.name) else set())
            missing += [f'{table.name}.{column.name}' for column in table.c
                        if column.name not in known]
        if missing:
            return _failure(
                f'This Octavia, or its database, has no '
                f'{", ".join(missing)}: run octavia-db-manage upgrade head, '
                f'or install a release of octavia-hmsync for this Octavia.')
        return _GOOD

    def _check_tables(self):
        with self._engine.connect() as connection:
            try:
                schema.check(connection)
            except exceptions.SchemaNewer as e:
                return _warning(str(e))
            except exceptions.SchemaMissing as e:
                return _failure(str(e))
        return _GOOD

    def _check_switched_on(self):
        groups = [group for group in self._conf.config_source
                  if self._conf[group].driver == DRIVER]
        if not groups:
            return _failure(
                f'octavia.conf does not switch the plugin on: set [DEFAULT] '
                f'config_source = hmsync and [hmsync] driver = {DRIVER}.')
        drivers = self._conf.controller_worker.statistics_drivers
        if STATISTICS_DRIVER not in drivers:
            return _warning(
                f'[controller_worker] statistics_drivers has no '
                f'{STATISTICS_DRIVER}: it is not seen which amphorae use '
                f'their list.')
        return _GOOD

    def _check_pinned(self):
        pinned = controller_list.PinnedAddresses(self._conf).get()
        if pinned:
            return _warning(
                f'octavia.conf lists {addr.join_list(pinned)}. These stay in '
                f'every list, and count as alive. When all health managers '
                f'have registered, remove controller_ip_port_list.')
        return _GOOD

    def _check_address(self):
        opts = self._conf.hmsync
        try:
            addr.check_advertised(address.load_driver(self._conf).get(),
                                  opts.allowed_networks, opts.allow_loopback)
            _check_bind_ip(self._conf.health_manager.bind_ip)
        except exceptions.HMSyncException as e:
            return _warning(f'A health manager on this host would not '
                            f'register: {e}')
        except db_exc.DBError as e:
            # Some drivers read it there.
            return _warning(f'The address of this host is not to be had '
                            f'from the database: {api.describe(e)}')
        return _GOOD

    def _check_health_managers(self):
        members = hm_repo.get_all(self._engine)
        up = [m for m in members if mem.is_listening(
            m, self._conf.hmsync.offline_after)]
        if not up:
            return _warning('No health manager has registered that is up. '
                            'Restart them with the plugin switched on.')
        older = sorted(
            f'{host} ({release or "unknown"})' for host, release in
            hm_repo.get_plugin_versions(
                self._engine, self._conf.hmsync.offline_after).items()
            if self._is_older(release))
        if older:
            return _warning(
                f'The health managers {", ".join(older)} run an older '
                f'release of octavia-hmsync than this one, {self._version}: '
                f'bring them up to date and restart them.')
        blind = sorted(m.host for m in up if m.is_heard is None)
        if blind:
            return _warning(
                f'The health managers {", ".join(blind)} do not tell what '
                f'they hear: add {STATISTICS_DRIVER} to [controller_worker] '
                f'statistics_drivers there, or bring octavia-hmsync up to '
                f'date.')
        return _GOOD

    def _is_older(self, release):
        if release is None:
            return True
        try:
            return packaging_version.Version(release) < self._version
        except packaging_version.InvalidVersion:
            # Nobody can tell what it is: it is named, too.
            return True

    def _check_clocks(self):
        """Whether nodes of the database agree on the time."""
        ahead = hm_repo.find_ahead(self._engine)
        if ahead:
            return _warning(
                f'The clocks of the database nodes differ: the keepalives of '
                f'{", ".join(sorted(ahead))} lie up to '
                f'{max(ahead.values()):.0f} s in the future of the node that '
                f'this controller uses. Run NTP on all nodes of the '
                f'database.')
        return _GOOD

    def _check_house_keeping(self):
        if not keeper_repo.get_up(self._engine,
                                  self._conf.hmsync.offline_after):
            return _warning(
                'No octavia-housekeeping has registered that is up. Without '
                'it nobody publishes lists and uploads them. Restart it with '
                'the plugin switched on.')
        blind = reach.get_blind(uploader_repo.get_all(self._engine),
                                self._conf.hmsync.offline_after)
        if blind:
            return _warning(
                f'These cannot reach the agents of amphorae that others '
                f'reach: {", ".join(u.name for u in blind)}. Check the route '
                f'from there to TCP '
                f'{self._conf.haproxy_amphora.bind_port} of amphorae.')
        return _GOOD

    def _check_key(self):
        key = self._conf.health_manager.heartbeat_key
        keys = keys_repo.get_keys(self._engine,
                                  timing.Settings.from_conf(self._conf))
        restart = hm_repo.get_outdated(self._engine,
                                       self._conf.hmsync.offline_after)
        if restart:
            # Also where that is why the check below would fail.
            return _warning(
                f'{", ".join(restart)} listen with another heartbeat_key than '
                f'octavia.conf has there by now. Restart octavia-health-'
                f'manager: a new key goes to half of them first.')
        try:
            heartbeat_key.check(key, keys, keys.published)
        except exceptions.InvalidConfiguration as e:
            return _failure(str(e))
        others = keys.find_other_listeners(heartbeat_key.digest(key))
        if others:
            return _warning(
                f'{", ".join(others)} listen with another heartbeat_key than '
                f'this octavia.conf has, and are in no list for it. Restart '
                f'octavia-health-manager there with the same key.')
        return _GOOD

    def _check_images(self):
        judged = doubt_repo.judge_all(
            self._engine, hm_repo.get_all(self._engine),
            timing.Settings.from_conf(self._conf))
        old = [amphora_id for amphora_id, state in judged.items()
               if state is adoption.Adoption.NOT_ADOPTED]
        if old:
            return _warning(
                f'{len(old)} amphorae acknowledge a list and go on with an '
                f'old one: their images are too old. See "octavia-hmsync '
                f'amphora list --not-adopted", and fail them over.')
        return _GOOD

    def check_all(self):
        """Run the checks, as far as the first ones leave it possible.

        :returns: an upgradecheck.Code, the worst of all; the table is
                  printed.
        """
        first = [('Octavia', self._check_octavia()),
                 ('Tables', self._check_tables())]
        later = [('Switched on', self._check_switched_on()),
                 ('Pinned addresses', self._check_pinned()),
                 ('Advertised address', self._check_address())]
        if all(result.code is not upgradecheck.Code.FAILURE
               for _name, result in first):
            later += [('Health managers', self._check_health_managers()),
                      ('Housekeeping', self._check_house_keeping()),
                      ('Clocks', self._check_clocks()),
                      ('Heartbeat key', self._check_key()),
                      ('Amphora images', self._check_images())]
        self._upgrade_checks = tuple(
            (name, (lambda _self, result: result, {'result': result}))
            for name, result in first + later)
        return self.check()

# SPDX-License-Identifier: Apache-2.0

"""Keeps this health manager's row up to date."""

import math
import time

from oslo_log import log as logging

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import address
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync import version

LOG = logging.getLogger(__name__)


class Keepalive:
    """Registers this health manager, touches its row, and unregisters it.

    .written_at is the time of its last keepalive, in seconds since the epoch
    by this controller's clock, 0.0 before the first one. .clock_offset is by
    how many seconds that clock was ahead of the database's. .status is this
    process's status in the database, None while it is not registered.

    :param start_took: seconds from the start of this process, None if
                       unknown.
    """

    def __init__(self, conf, engine, address_driver, listener, instance,
                 clock=time.monotonic, start_took=None):
        self._conf = conf
        self._engine = engine
        self._address_driver = address_driver
        self._listener = listener
        self._instance = instance
        self._clock = clock
        self._start_took = start_took
        self._further = address.FurtherAddresses(conf)
        # {network: IP address} as registered, and what was logged of them.
        self._announced = {}
        self._further_problems = []
        self._registered = None
        self._has_been_registered = False
        self._clock_is_wrong = False
        self._clocks_are_apart = False
        # The listener reads its key once, when it starts. SIGHUP may change
        # the configuration, but not the listener's key.
        self._key = conf.health_manager.heartbeat_key
        self._is_key_told = False
        self.written_at = 0.0
        self.clock_offset = math.nan
        self.status = None
        self._last_write = None

    def beat(self):
        """Write a keepalive, or register, or raise HMSyncException."""
        if self._listener.has_stopped():
            self.say_goodbye()
            return
        if self._listener.is_starting():
            hm_repo.set_starting(self._engine, self._conf.host,
                                 self._instance)
            return
        try:
            ip_address, port = self._find_address()
            self._tell_key()
            further = self._find_further(ip_address, port)
            if further != self._announced or not self._touch(ip_address,
                                                             port):
                self._register(ip_address, port, further)
            self.written_at = time.time()
            self._last_write = self._clock()
            self.status = self._find_status()
            self._check_clock()
        except exceptions.HMSyncException:
            self.say_goodbye()
            if not self._listener.is_listening() and (
                    self._listener.is_stopping()):
                return
            raise

    def get_age(self):
        """Return the seconds since the last keepalive, None before any."""
        if self._last_write is None:
            return None
        return self._clock() - self._last_write

    def _find_status(self):
        """Return this process's status in the database, or None."""
        member = hm_repo.find(self._engine, self._conf.host, self._instance)
        return member.status if member else None

    def _check_clock(self):
        """Log when a skewed clock makes Octavia fail over healthy amphorae.

        Octavia compares its own clock with times from other controllers.
        """
        limit = self._conf.health_manager.heartbeat_timeout / 2
        ahead = clocks.get_offset(self._engine)
        self.clock_offset = ahead
        is_wrong = abs(ahead) > limit
        if is_wrong and not self._clock_is_wrong:
            LOG.error('The clock of this controller is %d s %s that of the '
                      'database. Octavia compares it with the times at which '
                      'other controllers heard an amphora: with clocks apart '
                      'by heartbeat_timeout = %d s it fails over amphorae '
                      'that are well. Run NTP on all controllers.',
                      abs(ahead), 'ahead of' if ahead > 0 else 'behind',
                      2 * limit)
        self._clock_is_wrong = is_wrong
        self._check_database_clocks()

    def _check_database_clocks(self):
        """Log when the clocks of database nodes differ."""
        ahead = clocks.find_ahead(self._engine)
        if ahead and not self._clocks_are_apart:
            LOG.warning('The clocks of the database nodes differ: the '
                        'keepalives of %s lie up to %d s in the future of the '
                        'node that this controller uses. Health managers are '
                        'taken for dead that much too early, or too late. '
                        'Run NTP on all nodes of the database.',
                        ', '.join(sorted(ahead)), max(ahead.values()))
        self._clocks_are_apart = bool(ahead)

    def say_goodbye(self):
        """Record that this health manager has stopped to listen."""
        self.status = None
        if self._registered is None:
            return
        if hm_repo.set_offline(self._engine, self._conf.host,
                               self._instance):
            LOG.info('Health manager %s at %s is OFFLINE.', self._conf.host,
                     self._registered)
        self._registered = None

    def _find_address(self):
        bind = self._conf.health_manager
        if not bind.bind_port:
            raise exceptions.InvalidConfiguration(
                'Amphorae cannot send to [health_manager] bind_port = 0, '
                'which is any free port: set it to that of all controllers, '
                '5555 by default, and restart octavia-health-manager.')
        if not self._listener.is_listening():
            raise exceptions.HMSyncException(
                f'No process listens for heartbeats at {bind.bind_ip} port '
                f'{bind.bind_port}: the listener of this health manager has '
                f'died or could not bind. It is not advertised to amphorae. '
                f'See above in this log for the reason, and restart '
                f'octavia-health-manager.')
        opts = self._conf.hmsync
        ip_address = addr.check_advertised(
            self._address_driver.get(), opts.allowed_networks,
            opts.allow_loopback)
        return ip_address, bind.bind_port

    def _find_further(self, ip_address, port):
        """Return {network: IP address} to announce; log what is wrong."""
        further, problems = self._further.get(ip_address)
        if further != self._announced:
            taken = hm_repo.find_taken(
                self._engine, self._conf.host, further, port,
                self._conf.hmsync.offline_after)
            problems += [
                f'[hmsync] further_networks: {network}: {further[network]} '
                f'is already registered by {host}: give each host its own.'
                for network, host in sorted(taken.items())]
            further = {network: ip for network, ip in further.items()
                       if network not in taken}
        for problem in problems:
            if problem not in self._further_problems:
                LOG.warning('Health manager %s announces no address in a '
                            'further network. %s', self._conf.host, problem)
        self._further_problems = problems
        return further

    def _configured_digest(self):
        return heartbeat_key.digest(self._conf.health_manager.heartbeat_key)

    def _tell_key(self):
        """Log when octavia.conf has another key than the listener."""
        is_other = (heartbeat_key.digest(self._key) !=
                    self._configured_digest())
        if is_other and not self._is_key_told:
            LOG.warning('octavia.conf has another [health_manager] '
                        'heartbeat_key by now than the one with which this '
                        'health manager listens: it reads its key when it '
                        'starts. Restart octavia-health-manager when its turn '
                        'comes: a new key goes to half of them first.')
        self._is_key_told = is_other

    def _is_observing(self):
        return ('hmsync' in
                self._conf.controller_worker.statistics_drivers)

    def _touch(self, ip_address, port):
        return hm_repo.touch(self._engine, self._conf.host, self._instance,
                             ip_address, port,
                             self._conf.hmsync.offline_after,
                             self._configured_digest())

    def _register(self, ip_address, port, further):
        own = addr.format_address(ip_address, port)
        if self._has_been_registered:
            # The row was ours. Did another process take the name? Only a
            # starting process may take it from a living one.
            usurper = hm_repo.find_usurper(
                self._engine, self._conf.host, self._instance,
                self._conf.hmsync.offline_after)
            if usurper:
                raise exceptions.HostConflict(
                    f'Another health manager, at {usurper}, is registered as '
                    f'host {self._conf.host} too: each needs a [DEFAULT] '
                    f'host of its own. This one, at {own}, is not '
                    f'advertised to amphorae.')
        hm_repo.register(self._engine, self._conf.host, ip_address, port,
                         self._instance, self._conf.hmsync.offline_after,
                         heartbeat_key.digest(self._key),
                         self._is_observing(), version.version_string(),
                         self._configured_digest(),
                         self._conf.hmsync.zone, self._start_took, further)
        self._registered = own
        self._announced = further
        self._has_been_registered = True
        LOG.info('Health manager %s is ONLINE at %s%s%s.', self._conf.host,
                 own, f' for zone {self._conf.hmsync.zone}'
                 if self._conf.hmsync.zone else '',
                 f', and at {", ".join(further.values())} for amphorae of '
                 f'{", ".join(further)}' if further else '')

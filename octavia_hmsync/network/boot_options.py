# SPDX-License-Identifier: Apache-2.0

"""The network and security group of new amphorae, live in Octavia's options.

With them, "network ensure" on any controller is all that is needed.
"""

import contextlib
import functools
import math
import time

from oslo_config import cfg

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import live_options
from octavia_hmsync.network.db import network as network_repo

GROUP = 'controller_worker'
_NETWORKS = 'amp_boot_network_list'
_SECURITY_GROUPS = 'amp_secgroup_list'
OPTIONS = (_NETWORKS, _SECURITY_GROUPS)


def option_values(network_id, security_group_id):
    """Return {option: list} of ``[controller_worker]`` for a network."""
    return {_NETWORKS: [network_id] if network_id else [],
            _SECURITY_GROUPS: [security_group_id] if security_group_id
            else []}


def get_free_options(conf):
    """Return the options without a value in files, before any override."""
    def is_set(option):
        location = conf.get_location(option, GROUP)
        return location is not None and (
            location.location.is_user_controlled or
            location.location is cfg.Locations.set_override)

    return tuple(option for option in OPTIONS if not is_set(option))


class LiveBootOptions(live_options.LiveOptions):
    """Keeps free options at the management network that is recorded.

    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    def __init__(self, conf, options):
        super().__init__(conf, 'boot options', GROUP, options)

    def _read(self):
        return _read_recorded(self.engine, self._conf), ''


class RecordedBootOptions:
    """The management network that is recorded, for commands.

    And for octavia-hmsync-cluster-manager. The database is asked when one of
    the options is read, once in each poll_interval, until it has told of a
    network. Without an answer they are what they are without it.
    """

    def __init__(self, conf):
        self._conf = conf
        self._values: dict[str, list[str]] = {}
        self._asked_at = -math.inf

    @functools.cached_property
    def _engine(self):
        return api.create_engine(self._conf)

    def _read(self):
        # An outage is no answer for as long as the process lives.
        with contextlib.suppress(*api.ERRORS, exceptions.HMSyncException):
            self._values = _read_recorded(self._engine, self._conf)

    def get_value(self, group, option):
        """Return a list for an option that no file has, or None."""
        if (group != GROUP or option not in OPTIONS or
                not self._conf[network_conf.GROUP].supply_options):
            return None
        now = time.monotonic()
        if not self._values and (
                now - self._asked_at >= self._conf.hmsync.poll_interval):
            self._asked_at = now
            self._read()
        return self._values.get(option)


def _read_recorded(engine, conf):
    ids = network_repo.get_ids(engine, conf[network_conf.GROUP].network_name)
    return {} if ids is None else option_values(
        ids.network_id, ids.amphora_security_group_id)

# SPDX-License-Identifier: Apache-2.0

"""Keeps Octavia from unplugging amphorae from their management network.

When members change, Octavia unplugs an amphora from all networks but those of
the VIP, of members, and the management network. That one it takes from
octavia.conf or the availability zone as they are now, so that after a change
of the network amphorae of the old one would lose their only port there, and
fail over.
"""

import functools
import importlib
import inspect

from octavia.common import constants

_MODULE = 'octavia.controller.worker.v2.tasks.network_tasks'
_PLANS = (constants.DELETE_NICS, constants.DELETE_SUBNETS)


def keep():
    """Wrap the task that plans what is unplugged, in this process.

    The port to keep is the one with the ``lb_network_ip`` of the amphora.

    :raises AttributeError, ImportError: if the installed Octavia has no such
                                         task.
    """
    kind = importlib.import_module(_MODULE).CalculateAmphoraDelta
    stock = getattr(kind.execute, 'hmsync_stock', kind.execute)
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def execute(self, *args, **kwargs):
        delta = stock(self, *args, **kwargs)
        if any(delta.get(plan) for plan in _PLANS):
            amphora = signature.bind(self, *args, **kwargs).arguments[
                constants.AMPHORA]
            own = _find_own(self.network_driver, amphora)
            for plan in _PLANS:
                delta[plan] = [each for each in delta.get(plan) or ()
                               if each[constants.NETWORK_ID] not in own]
        return delta

    setattr(execute, 'hmsync_stock', stock)
    kind.execute = execute


def _find_own(network_driver, amphora):
    """Return the ids of networks with the management port of an amphora."""
    address = amphora[constants.LB_NETWORK_IP]
    return {nic.network_id for nic in network_driver.get_plugged_networks(
        amphora[constants.COMPUTE_ID])
        if any(ip.ip_address == address for ip in nic.fixed_ips or ())}

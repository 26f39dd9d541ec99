# SPDX-License-Identifier: Apache-2.0

"""Chooses what distributes, by ``[controller_worker] distributor_driver``.

See backend.Backend for what each of them does.
"""

import weakref

from octavia_hmsync.cluster.distribution import backend

OVS_DRIVER = 'hmsync_ovs'
OVN_DRIVER = 'hmsync_ovn'
# Other drivers cannot work, because Octavia's interface is not enough: rows,
# which they cannot set, decide which members are registered, and deaths
# depend on probes.
DRIVERS = (OVS_DRIVER, OVN_DRIVER)

_instances: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def is_ovn(conf):
    """Tell whether OVN distributes."""
    return conf.controller_worker.distributor_driver == OVN_DRIVER


def find_problem(conf):
    """Return why nothing can distribute to clusters, what to do, or None."""
    driver = conf.controller_worker.distributor_driver
    if driver in DRIVERS:
        return None
    return (f'[controller_worker] distributor_driver is {driver}, with which '
            f'nothing comes to the amphorae of a cluster: set it to '
            f'{OVS_DRIVER}, or to {OVN_DRIVER} with ML2/OVN, in octavia.conf '
            f'of all controllers.')


def make(conf, engine) -> backend.Backend:
    """Make the backend that the option names."""
    # Imported late: both import large libraries.
    if is_ovn(conf):
        from octavia_hmsync.cluster.distribution.ovn import backend as ovn
        return ovn.OVNBackend(conf, engine)
    from octavia_hmsync.cluster.distribution.ovs import backend as ovs
    return ovs.OVSBackend(conf, engine)


def get():
    """Return the backend of this process; raise DatabaseUnavailable."""
    from octavia_hmsync.cluster import work
    context = work.get_context()
    found = _instances.get(context)
    if found is None:
        # Threads that begin at once all get the same one.
        found = _instances.setdefault(
            context, make(context.conf, context.engine))
    return found

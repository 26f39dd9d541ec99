# SPDX-License-Identifier: Apache-2.0

"""Chooses what distributes, by ``[controller_worker] distributor_driver``.

driver_base, the update of members and housekeeping use: apply(), and of VIPs
sync(), add() and remove().
"""

import weakref

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
    """Return why nothing can distribute to clusters.

    :returns: a line that names the option and what to do, or None.
    """
    driver = conf.controller_worker.distributor_driver
    if driver in DRIVERS:
        return None
    return (f'[controller_worker] distributor_driver is {driver}, with which '
            f'nothing comes to the amphorae of a cluster: set it to '
            f'{OVS_DRIVER}, or to {OVN_DRIVER} with ML2/OVN, in octavia.conf '
            f'of all controllers.')


def make(conf, engine):
    """Make what tells distributors.

    :returns: a distributors.Distributors, or an ovn.balancers.Balancers.
    """
    # Imported late: both import large libraries.
    if is_ovn(conf):
        from octavia_hmsync.cluster.distribution.ovn import balancers
        return balancers.Balancers(conf, engine)
    from octavia_hmsync.cluster.distribution import distributors
    return distributors.Distributors(conf, engine)


def get_distributors():
    """Return the result of make() for this process.

    :raises DatabaseUnavailable: if the database URL cannot be used.
    """
    from octavia_hmsync.cluster import work
    context = work.get_context()
    found = _instances.get(context)
    if found is None:
        # Threads that begin at once all get the same one.
        found = _instances.setdefault(
            context, make(context.conf, context.engine))
    return found


def get_vips(conf, engine, distributors):
    """Return what puts VIPs on distributors.

    :param distributors: from make().
    :returns: a vips.VIPs, or the ovn.balancers.Balancers itself.
    """
    if is_ovn(conf):
        return distributors
    from octavia_hmsync.cluster.distribution import vips
    return vips.VIPs(conf, engine, distributors)


def make_watch(conf, engine, distributors):
    """Make what checks distributors, each time its run_once() is called.

    :param distributors: from make().
    :returns: a distributor_watch.DistributorWatch, or an ovn.watch.OVNWatch.
    """
    if is_ovn(conf):
        from octavia_hmsync.cluster.distribution.ovn import watch
        return watch.make(conf, engine, distributors)
    from octavia_hmsync.cluster.distribution import distributor_watch
    from octavia_hmsync.cluster.distribution import floating_ips
    return distributor_watch.make(conf, engine, distributors,
                                  floating_ips.make(conf, engine))


def make_probe_watch(conf, engine, distributors, wake):
    """Make what records the results of probes of members.

    :param distributors: from make().
    :param wake: called without arguments when something changed.
    :returns: a probe_watch.ProbeWatch, or an ovn.probes.OVNProbeWatch.
    """
    if is_ovn(conf):
        from octavia_hmsync.cluster.distribution.ovn import probes
        return probes.make(conf, engine, distributors, wake)
    from octavia_hmsync.cluster.distribution import probe_watch
    return probe_watch.make(distributors, engine, wake)

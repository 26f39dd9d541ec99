# SPDX-License-Identifier: Apache-2.0

"""Shared code of the commands on clusters and distributors."""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora_page as page_repo


CLUSTER_HELP = 'its id or name, or those of its load balancer'


def is_behind(vip, version):
    """Tell whether a distributor lacks the newest version of a cluster.

    :param version: of the cluster; None if that is gone.
    """
    return vip.applied_version != version


def show_vip(vip, version):
    """Return what is shown of a VIP on a distributor, a dict.

    :param version: of its cluster; None if that is gone.
    """
    return {'active': bool(vip.active),
            'applied_version': vip.applied_version, 'version': version,
            'error': vip.error}


def describe_vip(vip, of):
    """Put a VIP on a distributor in one line.

    :param vip: see show_vip().
    :param of: the name or id that begins the line.
    """
    applied, version = vip['applied_version'], vip['version']
    has = f'version {applied}' if applied else 'nothing'
    if applied != version:
        has += (', the cluster is gone' if version is None
                else f' of {version}')
    text = f'{of} {"ACTIVE" if vip["active"] else "STANDBY"} {has}'
    return f"{text}: {vip['error']}" if vip['error'] else text


def _pick(found, what, name, none):
    """Return the only thing found; raise NotPossible for none or several."""
    if not found:
        raise exceptions.NotPossible(none)
    if len(found) > 1:
        raise exceptions.NotPossible(
            f'There are {len(found)} {what} {name}: give the id of one of '
            f'them, {", ".join(each.id for each in found)}.')
    return found[0]


def find_cluster(engine, name):
    """Return the Cluster that an operator names.

    :param name: its id or name, or those of its load balancer.
    :raises NotPossible: if there is none, or several of that name.
    """
    found = [cluster for cluster in cluster_repo.get_all(engine)
             if name in (cluster.id, cluster.load_balancer_id,
                         cluster.cluster_name)]
    if not found:
        found = [cluster for cluster in map(
            lambda lb_id: cluster_repo.get_by_load_balancer(engine, lb_id),
            page_repo.find_load_balancers(engine, name)) if cluster]
    return _pick(found, 'clusters', name,
                 f'There is no cluster {name}, nor a load balancer of that '
                 f'name or id that has one: see "octavia-hmsync cluster '
                 f'list".')


def find_member(engine, name):
    """Return the Member that an operator names.

    :param name: its id, or that of its amphora.
    :raises NotPossible: if there is none.
    """
    found = (member_repo.get(engine, name) or
             member_repo.get_by_amphora(engine, name))
    return _pick([found] if found else [], 'members', name,
                 f'{name} is neither a member nor the amphora of a member: '
                 f'see "octavia-hmsync cluster member list".')


def find_distributor(engine, name):
    """Return the Distributor that an operator names.

    :param name: its name or id.
    :raises NotPossible: if there is none, or several of that name.
    """
    return _pick([each for each in distributor_repo.get_all(engine)
                  if name in (each.id, each.name)], 'distributors', name,
                 f'There is no distributor {name}: see "octavia-hmsync '
                 f'distributor list". A new one in [hmsync_cluster] '
                 f'distributors appears once a housekeeper has looked.')


def check_that_it_stays(engine, cluster):
    """Reject changes of a cluster that is being deleted.

    :raises NotPossible: if its load balancer is deleted, or about to be.
    """
    status = lock_repo.get_status(engine, cluster.id)
    if (status in (None, compat.DELETED, compat.PENDING_DELETE) or
            cluster.provisioning_status == compat.PENDING_DELETE):
        raise exceptions.NotPossible(
            f'Cluster {cluster.id} is being deleted: nothing of it can be '
            f'changed any more.')

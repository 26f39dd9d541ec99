# SPDX-License-Identifier: Apache-2.0

"""Repairs a cluster that is not as it should be.

The manager of the cluster decides what to do, from what the database has.
Urgent actions come first, see urgency. The slow ones are here: the claim
owner carries them out one after the other.
"""

import functools

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.keeping import urgency
from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync.cluster.members import members
from octavia_hmsync.cluster import work as work_
from octavia_hmsync.cluster.worker import flows
from octavia_hmsync.cluster.worker import orders
from octavia_hmsync.cluster.worker import tasks
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Actions for one cluster before it is the turn of others.
_MOST = 20


class Upkeep:
    """Repairs one cluster that has no claim."""

    def __init__(self, context, cluster_id):
        self._context = context
        self._cluster_id = cluster_id
        # The manager that decided last.
        self._manager = None

    def run(self):
        """Carry out actions until none is left or one fails.

        :returns: True if something was done, None if there was nothing to
                  do, False if an action failed.
        :raises InvalidConfiguration: if the cluster's manager is not
                                      installed here.
        """
        is_changed = urgency.Urgency(self._context, self._cluster_id).run()
        if not self._decide():
            return is_changed or None
        is_deletion = (lock_repo.get_status(
            self._context.engine, self._cluster_id) in (
                None, compat.DELETED, compat.PENDING_DELETE))
        held = self._context.claims.claim(self._cluster_id,
                                          is_deletion=is_deletion)
        if held is None:
            return is_changed or None
        work = work_.Work(self._context, self._cluster_id, held.owner,
                          is_deletion)
        try:
            return self._run(work)
        except exceptions.Interrupted as e:
            LOG.info('Cluster %s is left as it is: %s.', self._cluster_id,
                     type(e).__name__)
            return None
        finally:
            work.release()

    def _run(self, work):
        for _ in range(_MOST):
            actions = self._decide()
            if not actions:
                return True
            if not self._try(work, _get_together(actions)):
                # A failed action does not block the others.
                return self._try_others(work, actions)
            if actions[0].kind in _LAST:
                return True
            urgency.Urgency(self._context, self._cluster_id).run()
        return True

    def _try_others(self, work, actions):
        failed = {actions[0].kind}
        while actions := [action for action in actions
                          # It would fail for the next member, too.
                          if action.kind not in failed]:
            together = _get_together(actions)
            if not self._try(work, together):
                failed.add(actions[0].kind)
            actions = [action for action in actions
                       if not any(action is done for done in together)]
        return False

    def _decide(self):
        """Return the slow actions, in order."""
        found = situation.read(self._context, self._cluster_id)
        if found is not None:
            self._manager = found.manager
        return found and [action for action in found.decide()
                          if action.kind not in base.URGENT]

    def _try(self, work, actions):
        """Carry out actions at the same time.

        :param actions: a list of Actions of one kind.
        :returns: False if one of them failed.
        """
        for action in actions:
            LOG.info('Cluster %s: %s%s.', work.cluster_id, action.kind,
                     f' {action.member_id}' if action.member_id else '')
        if len(actions) == 1:
            return self._try_one(work, actions[0])
        # Numbered, because several ADDs are equal and for_each() needs keys.
        done: list[bool] = []
        members.for_each(
            lambda work, numbered: done.append(
                self._try_one(work, numbered[1])),
            work, list(enumerate(actions)))
        return all(done)

    def _try_one(self, work, action):
        kind, reason = base.EventKind.DONE, action.reason
        try:
            _DOERS[action.kind](work, action)
        except exceptions.Interrupted:
            raise
        except Exception as e:
            work.check()
            kind, reason = base.EventKind.FAILED, (
                compat_cluster.describe_failure(e))
            _tell_failure(work, action, reason)
        managers.tell(self._manager, kind, self._cluster_id,
                      action.member_id, str(action.kind), reason)
        return kind is base.EventKind.DONE


def _get_together(actions):
    """Return the actions to carry out together with the first one."""
    if actions[0].kind not in _AT_ONCE:
        return actions[:1]
    return [action for action in actions if action.kind is actions[0].kind]


def _tell_failure(work, action, reason):
    LOG.warning('Cluster %s, %s%s: %s. It is tried again.',
                work.cluster_id, action.kind,
                f' {action.member_id}' if action.member_id else '', reason)
    if action.kind == base.Kind.REPLACE:
        # "cluster member list" shows it to the operator who ordered it.
        member_repo.record(work.engine, action.member_id, error=f'{reason}.')
        lock_repo.fail_failover(work.engine, work.cluster_id, work.owner,
                                work_.CLAIM_EXPIRY)
    LOG.debug('It failed:', exc_info=True)


def _run_flow(work, factory, *args, without=(), **store):
    cluster = work.read()
    load_balancer = work.get_load_balancer()
    store = {**worker.make_store(cluster, load_balancer),
             tasks.OWNER: work.owner, **store}
    for name in without:
        del store[name]
    compat_cluster.run(factory(*args, is_claimed=True), store)


def _forget(work, _action):
    tasks.remove_from_distributors(work)
    members.for_each(members.remove, work, work.read_members())
    cluster_repo.delete(work.engine, work.cluster_id)


def _delete(work, _action):
    load_balancer = work.get_load_balancer()
    cluster_repo.set_status(work.engine, work.cluster_id,
                            compat.PENDING_DELETE)
    listeners, pools = compat_cluster.describe_children(load_balancer)
    _run_flow(work, flows.get_delete_load_balancer_flow,
              compat_cluster.describe_load_balancer(load_balancer),
              listeners, pools,
              **compat_cluster.make_deletion_store(load_balancer))


def _unlock(work, _action):
    """Unlock a load balancer whose worker died with a change."""
    cluster = work.read()
    if cluster.provisioning_status == compat.PENDING_DELETE:
        # The tenant must delete it again.
        lock_repo.fail_deletion(work.engine, work.cluster_id, work.owner,
                                work_.CLAIM_EXPIRY)
        return
    found = situation.read(work.context, work.cluster_id)
    if found is not None:
        work.unlock(found.settle())


def _remove(work, action):
    member = member_repo.get(work.engine, action.member_id)
    if member is None:
        return
    # Without an amphora distributors never heard of it: its worker died
    # early.
    if member.amphora_id is not None:
        distribution.run(work, 'unregister_amphorae', [member])
    members.remove(work, member)


def _replace(work, action):
    """Replace a member; a load balancer in ERROR is locked all the time."""
    is_locked = work.lock(compat.ERROR)
    try:
        _run_flow(work, functools.partial(flows.get_replace_member_flow,
                                          is_locked=is_locked),
                  **{tasks.OLD_MEMBER_ID: action.member_id})
    finally:
        if is_locked:
            work.look()
            work.unlock()


def _configure(work, action):
    _run_flow(work, flows.get_configure_member_flow,
              **{tasks.MEMBER_ID: action.member_id})
    member = member_repo.get(work.engine, action.member_id)
    compat_cluster.set_amphora_right(member.amphora_id)


def _stand_by(work, action):
    """Make a member that lost its slot a standby.

    If it does not take its configuration, it is deleted.
    """
    try:
        _run_flow(work, flows.get_stand_by_flow,
                  **{tasks.MEMBER_ID: action.member_id})
    except exceptions.BuildFailed as e:
        work.look()
        member_repo.unregister(work.engine, action.member_id, str(e))
        raise


_DOERS = {
    base.Kind.FORGET: _forget,
    base.Kind.DELETE: _delete,
    base.Kind.TAKE_BACK: lambda work, _action: tasks.take_back(work),
    base.Kind.CREATE: lambda work, _action: _run_flow(
        work, flows.get_create_load_balancer_flow, without=worker.PROVIDED),
    base.Kind.UNLOCK: _unlock,
    base.Kind.TAKE_ORDERS: lambda work, _action: orders.take(work),
    base.Kind.REMOVE: _remove,
    base.Kind.REPLACE: _replace,
    base.Kind.CONFIGURE: _configure,
    base.Kind.ADD: lambda work, _action: _run_flow(
        work, flows.get_add_member_flow),
    base.Kind.STAND_BY: _stand_by,
    base.Kind.BUILD_STANDBY: lambda work, _action: _run_flow(
        work, flows.get_build_standby_flow),
}
# Carried out for several members at the same time.
_AT_ONCE = (base.Kind.REMOVE, base.Kind.ADD, base.Kind.BUILD_STANDBY)
# After these the cluster is gone, or the work of this claim is done.
_LAST = (base.Kind.FORGET, base.Kind.DELETE, base.Kind.TAKE_BACK,
         base.Kind.CREATE)


def adopt(conf, orphan):
    """Record a cluster for a load balancer whose message was lost."""
    load_balancer = compat_amphora.get_load_balancer(orphan.id)
    if load_balancer is None:
        return
    LOG.warning('Load balancer %s, which is %s, is taken up by housekeeping: '
                'no worker has done so.', orphan.id,
                orphan.provisioning_status)
    flavor, _zone = compat_amphora.get_metadata(load_balancer, None)
    worker.ensure_cluster(conf, load_balancer, flavor)

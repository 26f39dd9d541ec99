# SPDX-License-Identifier: Apache-2.0

"""Load balancers of the API: read, changed, and waited for."""

import time

from oslo_utils import uuidutils

from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.image.clone import cloud
from octavia_hmsync.image.clone import tags as clone_tags
from octavia_hmsync.image.clone import tree as trees

_PATH = '/lbaas/loadbalancers'
_IMMUTABLE = 409
# How often a tag is written again that another writer has removed.
_ATTEMPTS = 5


class LoadBalancers:
    """The requests to Octavia; timeout is for a load balancer in PENDING."""

    # Seconds between two looks.
    interval = 2.0

    def __init__(self, api: cloud.API, timeout=600.0):
        self._api = api
        self._timeout = timeout

    def get_all(self, **query):
        """Return load balancers as the API shows them."""
        return [raw for raw in self._api.get_all(
            _PATH, 'loadbalancers', 'list load balancers', **query)
            if raw['provisioning_status'] != 'DELETED']

    def find(self, load_balancer_id):
        """Return a load balancer by its id, None if there is none."""
        if not uuidutils.is_uuid_like(load_balancer_id):
            return None
        answer = self._api.find(f'{_PATH}/{load_balancer_id}',
                                f'read load balancer {load_balancer_id}')
        if (not answer or
                answer['loadbalancer']['provisioning_status'] == 'DELETED'):
            return None
        return answer['loadbalancer']

    def get(self, load_balancer_id):
        """Return a load balancer, or raise NotPossible if it is gone."""
        found = self.find(load_balancer_id)
        if found is None:
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer_id} has been deleted, and '
                f'its clone has ended: start another one.')
        return found

    def find_clones(self, source_id):
        """Return the clones of a load balancer, the oldest one first."""
        tag = clone_tags.make(clone_tags.CLONE_OF, source_id)
        return sorted(
            (raw for raw in self.get_all(tags=tag) if tag in raw['tags']),
            key=lambda raw: (raw['created_at'], raw['id']))

    def read_tree(self, root):
        """Read a load balancer with all its children."""
        action = f'read load balancer {root["id"]}'
        project = {'project_id': root['project_id']}

        def read(kind, ids, key='id'):
            return [raw for raw in self._api.get_all(
                f'/lbaas/{kind}', kind, action, **project)
                if raw[key] in ids]

        listener_ids = {raw['id'] for raw in root.get('listeners') or ()}
        pool_ids = {raw['id'] for raw in root.get('pools') or ()}
        listeners = read('listeners', listener_ids) if listener_ids else []
        pools = read('pools', pool_ids) if pool_ids else []
        policies = (read('l7policies', listener_ids, 'listener_id') if any(
            raw.get('l7policies') for raw in listeners) else [])
        monitor_ids = {raw.get('healthmonitor_id') for raw in pools} - {None}
        monitors = {raw['id']: raw for raw in read(
            'healthmonitors', monitor_ids)} if monitor_ids else {}
        for policy in policies:
            policy['rules'] = self._api.get_all(
                f'/lbaas/l7policies/{policy["id"]}/rules', 'rules', action
            ) if policy.get('rules') else []
        for listener in listeners:
            listener['l7policies'] = [
                policy for policy in policies
                if policy['listener_id'] == listener['id']]
        for pool in pools:
            pool['members'] = self._api.get_all(
                f'/lbaas/pools/{pool["id"]}/members', 'members', action
            ) if pool.get('members') else []
            pool['healthmonitor'] = monitors.get(
                pool.get('healthmonitor_id'))
        return trees.Tree(root, listeners, pools)

    def count_connections(self, load_balancer_id):
        """Return how many connections a load balancer has now."""
        return self._api.get(
            f'{_PATH}/{load_balancer_id}/stats',
            f'read the statistics of load balancer {load_balancer_id}'
        )['stats']['active_connections']

    def find_quota(self, project_id):
        """Return the quota of a project; None if it may not be read."""
        try:
            return self._api.get(f'/lbaas/quotas/{project_id}',
                                 'read the quota')['quota']
        except cloud.Refused:
            return None

    def count_all(self, project_id):
        """Return how many objects of each kind a project has."""
        found = {kind: self._api.get_all(
            f'/lbaas/{kind}', kind, f'count {kind}', project_id=project_id)
            for kind in ('loadbalancers', 'listeners', 'pools',
                         'l7policies')}
        return {
            'load balancer': len(found['loadbalancers']),
            'listener': len(found['listeners']),
            'pool': len(found['pools']),
            'L7 policy': len(found['l7policies']),
            'L7 rule': sum(len(raw.get('rules') or ())
                           for raw in found['l7policies']),
            'member': sum(len(raw.get('members') or ())
                          for raw in found['pools']),
            'health monitor': sum(bool(raw.get('healthmonitor_id'))
                                  for raw in found['pools'])}

    def create(self, body):
        """Make a load balancer with all its children; returns it."""
        return self._api.post(_PATH, {'loadbalancer': body},
                              'create the clone')['loadbalancer']

    def rename_pool(self, load_balancer_id, pool_id, name):
        """Give a pool another name."""
        self.change(load_balancer_id, lambda: self._api.put(
            f'/lbaas/pools/{pool_id}', {'pool': {'name': name}},
            f'rename pool {pool_id}'))

    def change(self, load_balancer_id, act):
        """Act on an ACTIVE load balancer; again if others were faster."""
        end = time.monotonic() + self._timeout
        while True:
            self.wait_until_settled(load_balancer_id)
            try:
                return act()
            except cloud.Refused as e:
                if e.status != _IMMUTABLE or time.monotonic() > end:
                    raise
            time.sleep(self.interval)

    def write_tags(self, load_balancer_id, add=(), remove=()):
        """Change tags, and keep those of others.

        The API replaces all tags at once. So they are read again afterwards:
        another writer may have written its own older list.

        :raises NotPossible: if another writer undoes the change each time.
        """
        for _attempt in range(_ATTEMPTS):
            root = self.wait_until_settled(load_balancer_id)
            wanted = clone_tags.change(root['tags'], add, remove)
            if wanted == root['tags']:
                return root
            try:
                self._api.put(
                    f'{_PATH}/{load_balancer_id}',
                    {'loadbalancer': {'tags': wanted}},
                    f'change the tags of load balancer {load_balancer_id}')
            except cloud.Refused as e:
                # Another change is under way: look again.
                if e.status != _IMMUTABLE:
                    raise
        raise exceptions.NotPossible(
            f'The tags of load balancer {load_balancer_id} are changed '
            f'by others again and again: run the command again when '
            f'that has stopped.')

    def wait_until_settled(self, load_balancer_id, tell=lambda text: None):
        """Wait until it is ACTIVE or in ERROR, or raise NotPossible."""
        end = time.monotonic() + self._timeout
        told = None
        while True:
            root = self.get(load_balancer_id)
            status = root['provisioning_status']
            if not status.startswith('PENDING_'):
                return root
            if status != told:
                tell(f'Load balancer {load_balancer_id} is {status}; it may '
                     f'take {progress.describe_time(self._timeout)}.')
                told = status
            if time.monotonic() > end:
                raise exceptions.NotPossible(
                    f'Load balancer {load_balancer_id} is still '
                    f'{root["provisioning_status"]} after '
                    f'{self._timeout:g} s: run the command again when it is '
                    f'ACTIVE.')
            time.sleep(self.interval)

    def delete(self, load_balancer_id):
        """Delete a load balancer with all its children, and wait."""
        end = time.monotonic() + self._timeout
        while True:
            root = self.find(load_balancer_id)
            if root is None:
                return
            if root['provisioning_status'] != 'PENDING_DELETE':
                self._try_delete(load_balancer_id)
            if time.monotonic() > end:
                raise exceptions.NotPossible(
                    f'Load balancer {load_balancer_id} is not deleted after '
                    f'{self._timeout:g} s, it is '
                    f'{root["provisioning_status"]}: run the command again.')
            time.sleep(self.interval)

    def _try_delete(self, load_balancer_id):
        try:
            self._api.delete(f'{_PATH}/{load_balancer_id}',
                             f'delete load balancer {load_balancer_id}',
                             cascade='true')
        except cloud.Refused as e:
            # Not deleted yet, but PENDING for another reason.
            if e.status != _IMMUTABLE:
                raise

# SPDX-License-Identifier: Apache-2.0

"""Switches to a clone and back, and deletes the source."""

import time

from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.image.clone import cloner as cloners
from octavia_hmsync.image.clone import diff
from octavia_hmsync.image.clone import floating_ips as fips
from octavia_hmsync.image.clone import owners
from octavia_hmsync.image.clone import rules
from octavia_hmsync.image.clone import tags as clone_tags

# Seconds without a connection; heartbeats bring statistics every 10 s.
SETTLE = 30.0


class Switcher:
    """Moves floating IPs between a source and its clone."""

    def __init__(self, cloner):
        self._cloner = cloner
        self._load_balancers = cloner.load_balancers
        self._floating_ips = cloner.floating_ips

    def switch(self, name_or_id, timeout, allow_differences=False,
               dry_run=False, tell=lambda text: None):
        """Move all floating IPs of the source to the clone.

        :returns: (the earlier Pair, the floating_ips.Moves made).
        :raises NotPossible: if the clone serves worse; nothing has changed.
        """
        pair = self._get(name_or_id)
        self._check_equal(pair, allow_differences)
        self._wait_until_no_worse(pair, timeout, tell)
        pair = self._get(name_or_id)
        if not pair.at_source and not pair.at_clone:
            raise exceptions.NotPossible(
                f'No floating IP leads to load balancer {pair.source.id}: '
                f'move its clients to {pair.clone.root["vip_address"]} by '
                f'DNS, then retire it.')
        moves = fips.plan_moves(pair.at_source, pair.source, pair.clone)
        if moves and not dry_run:
            # Written before the move, because "back" needs it.
            self._load_balancers.write_tags(pair.clone.id, add=[
                clone_tags.make(clone_tags.FLOATING_IP, each.id)
                for each in pair.at_source])
            self._floating_ips.move_all(moves)
        return pair, moves

    def _get(self, name_or_id):
        pair = self._cloner.get_pair(name_or_id)
        if pair.source is None:
            raise exceptions.NotPossible(
                f'The source of clone {pair.clone.id} is gone: there is no '
                f'way back. "clone retire" forgets it.')
        if pair.phase in (rules.Phase.RETIRING, rules.Phase.DELETING):
            raise exceptions.NotPossible(
                f'Load balancer {pair.source.id} or its clone '
                f'{pair.clone.id} is being deleted: let that end, with '
                f'"clone retire".')
        return pair

    @staticmethod
    def _check_equal(pair, allow_differences):
        if pair.phase == rules.Phase.CREATING:
            raise exceptions.NotPossible(
                f'The clone {pair.clone.id} is not complete: run '
                f'"clone create" again, which goes on '
                f'with it.')
        differences = diff.compare(pair.source, pair.clone,
                                   pair.clone.root['name'])
        if differences and not allow_differences:
            raise exceptions.NotPossible(
                f'The clone {pair.clone.id} is not equal to its source any '
                f'more: {cloners.describe(differences)}. Change one of them, '
                f'or switch with --allow-differences.')

    def _wait_until_no_worse(self, pair, timeout, tell):
        end = time.monotonic() + timeout
        told = None
        while True:
            worse = rules.find_worse(pair.source, pair.clone)
            if not worse:
                return
            if (time.monotonic() >= end or
                    pair.phase == rules.Phase.FAILED):
                raise exceptions.NotPossible(
                    f'The clone {pair.clone.id} serves worse than its '
                    f'source: {"; ".join(worse)}. Nothing was '
                    f'switched: wait, and run the command again.')
            if worse != told:
                tell(f'The clone {pair.clone.id} serves worse yet, and is '
                     f'waited for, {progress.describe_time(timeout)} at '
                     f'most: {"; ".join(worse)}.')
                told = worse
            time.sleep(self._load_balancers.interval)
            pair = self._get(pair.clone.id)

    def back(self, name_or_id, dry_run=False):
        """Move the floating IPs back to the source.

        The state of its members does not matter: this is the way out of
        trouble.

        :raises NotPossible: if the source is gone, or being deleted.
        """
        pair = self._get(name_or_id)
        moves = fips.plan_moves(pair.at_clone, pair.clone, pair.source)
        if not moves or dry_run:
            return pair, moves
        self._floating_ips.move_all(moves)
        # retire() writes its tag before it looks at floating IPs. This method
        # looks at the tag after it moved them. So one of them sees the other.
        root = self._load_balancers.find(pair.source.id)
        if root is None or cloners.is_retiring(root):
            self._floating_ips.move_all(fips.plan_moves(
                self._floating_ips.get_all(pair.source), pair.source,
                pair.clone))
            raise exceptions.NotPossible(
                f'Load balancer {pair.source.id} is being deleted by another '
                f'command: the floating IPs lead to the clone again.')
        return pair, moves

    def delete_clone(self, pair):
        """Delete a clone; raise NotPossible if a floating IP leads to it."""
        pair = self._cloner.get_pair(pair.clone.id)
        left = [each.address for each in (*pair.at_clone, *pair.others)]
        if left:
            raise exceptions.NotPossible(
                f'The clone {pair.clone.id} is not deleted, since floating '
                f'IPs lead to it: {", ".join(left)}.')
        self._load_balancers.delete(pair.clone.id)

    def retire(self, name_or_id, timeout, without_floating_ip=False,
               tell=lambda text: None, dry_run=False):
        """Delete the source, once it is no longer used.

        :param timeout: seconds to wait for the end of its connections.
        :raises NotPossible: if the source is still in use.
        """
        pair = self._cloner.get_pair(name_or_id)
        if pair.source is None:
            self._forget(pair, dry_run)
            return pair
        if pair.phase != rules.Phase.RETIRING:
            self._check_unused(pair, without_floating_ip)
            if not dry_run:
                self._wait_for_connections(pair.source.id, timeout, tell)
        if dry_run:
            return pair
        self._mark(pair)
        self._load_balancers.delete(pair.source.id)
        self._forget(pair)
        owner = owners.find(pair.source.root)
        if owner:
            tell(f'Load balancer {pair.clone.id} is one of {owner.name} now: '
                 f'{owner.afterwards}.')
        return pair

    def _check_unused(self, pair, without_floating_ip):
        if pair.at_source:
            raise exceptions.NotPossible(
                f'Floating IPs lead to load balancer {pair.source.id}: '
                f'{", ".join(each.address for each in pair.at_source)}. '
                f'Switch first.')
        if not pair.at_clone and not without_floating_ip:
            raise exceptions.NotPossible(
                f'No floating IP leads to the clone {pair.clone.id}: where '
                f'clients were moved by DNS, say --without-floating-ip.')
        worse = rules.find_worse(pair.source, pair.clone)
        if worse:
            raise exceptions.NotPossible(
                f'The clone {pair.clone.id} serves worse than its source, '
                f'which is not deleted: {"; ".join(worse)}. Repair it, or '
                f'go back.')

    def _wait_for_connections(self, source_id, timeout, tell):
        start = time.monotonic()
        samples = []
        rates = progress.Rates()
        most, told = 0, None
        while True:
            count = self._load_balancers.count_connections(source_id)
            now = time.monotonic() - start
            samples.append((now, count))
            most = max(most, count)
            rate = rates.note(now, most, most - count)
            if count != told:
                bar = progress.Bar(
                    'connections', most - count, most, 'connections',
                    (f'the others are cut after '
                     f'{progress.describe_time(timeout)}',) if count else ())
                tell(f'Ended at load balancer {source_id}: '
                     f'{bar.describe(rate)}.')
                told = count
            if rules.is_drained(samples, SETTLE):
                return
            if now >= timeout:
                if count:
                    tell(f'{count} connections are cut.')
                return
            time.sleep(min(self._load_balancers.interval,
                           max(timeout - now, 0)))

    def _mark(self, pair):
        """Mark the source as being deleted, then look once more."""
        mark = [clone_tags.make(clone_tags.RETIRED_BY, pair.clone.id)]
        self._load_balancers.write_tags(pair.source.id, add=mark)
        left = self._floating_ips.get_all(pair.source)
        if left:
            self._load_balancers.write_tags(pair.source.id, remove=mark)
            raise exceptions.NotPossible(
                f'Load balancer {pair.source.id} is not deleted: another '
                f'command has moved floating IPs to it again: '
                f'{", ".join(each.address for each in left)}.')

    def _forget(self, pair, dry_run=False):
        """Make the clone an ordinary load balancer."""
        if not dry_run:
            root = self._load_balancers.get(pair.clone.id)
            self._load_balancers.write_tags(
                pair.clone.id,
                remove=[tag for tag in root['tags']
                        if clone_tags.is_ours(tag)])

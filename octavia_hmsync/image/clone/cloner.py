# SPDX-License-Identifier: Apache-2.0

"""Makes a clone, and reads its present state."""

import dataclasses

from octavia_hmsync import exceptions
from octavia_hmsync.image.clone import diff
from octavia_hmsync.image.clone import preflight
from octavia_hmsync.image.clone import rules
from octavia_hmsync.image.clone import tags as clone_tags
from octavia_hmsync.image.clone import tree as trees

# Differences that one message names.
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """A tenant's options for a new clone; name None: that of the source."""

    name: str | None = None
    without_floating_ip: bool = False
    leave_out: tuple[str, ...] = ()
    owner_is_stopped: bool = False


@dataclasses.dataclass(frozen=True)
class Pair:
    """A source and its clone.

    :ivar source: a tree.Tree, None if it is gone.
    :ivar at_source: floating IPs that lead to the source.
    :ivar at_clone: floating IPs of the source that lead to the clone.
    :ivar others: floating IPs of the clone that never led to the source.
    """

    source: trees.Tree | None
    clone: trees.Tree
    at_source: list
    at_clone: list
    others: list

    @property
    def phase(self):
        if self.source is None:
            return rules.find_phase(
                self.clone.root['provisioning_status'], None, False, True, 0,
                len(self.at_clone))
        return rules.find_phase(
            self.clone.root['provisioning_status'],
            self.source.root['provisioning_status'],
            is_retiring(self.source.root),
            not trees.find_renames(self.source, self.clone),
            len(self.at_source), len(self.at_clone))


def is_retiring(root):
    """Tell whether the deletion of a source has begun."""
    return bool(clone_tags.values(root['tags'], clone_tags.RETIRED_BY))


def describe(differences):
    """Put some of the differences in one line."""
    texts = [str(each) for each in differences]
    more = ([f'and {len(texts) - _SHOWN} more'] if len(texts) > _SHOWN
            else [])
    return '; '.join(texts[:_SHOWN] + more)


class Cloner:
    """Makes a clone."""

    def __init__(self, load_balancers, floating_ips):
        self.load_balancers = load_balancers
        self.floating_ips = floating_ips

    # Reading

    def resolve(self, name_or_id):
        """Find a load balancer, or the pair that it belongs to.

        :param name_or_id: of the source or of the clone.
        :returns: (id of the source, the clone as the API shows it or None).
        :raises NotPossible: if there is none, or more than one.
        """
        found = self.load_balancers.find(name_or_id)
        # On MariaDB Octavia's search ignores case and accents.
        named = [found] if found else [
            raw for raw in self.load_balancers.get_all(name=name_or_id)
            if raw['name'] == name_or_id]
        sources = {(clone_tags.values(raw['tags'], clone_tags.CLONE_OF) or
                    [raw['id']])[0] for raw in named}
        if not sources:
            raise exceptions.NotPossible(
                f'There is no load balancer {name_or_id} in this project: '
                f'see "openstack loadbalancer list".')
        if len(sources) > 1:
            raise exceptions.NotPossible(
                f'There is more than one load balancer {name_or_id}: give '
                f'the id of one.')
        source_id = sources.pop()
        return source_id, self._get_clone(source_id)

    def _get_clone(self, source_id):
        clones = self.load_balancers.find_clones(source_id)
        if len(clones) > 1:
            raise exceptions.NotPossible(
                f'Load balancer {source_id} has more than one clone: '
                f'{", ".join(raw["id"] for raw in clones)}. Delete all but '
                f'one.')
        return clones[0] if clones else None

    def get_pair(self, name_or_id):
        """Read a source and its clone, or raise NotPossible."""
        source_id, clone = self.resolve(name_or_id)
        if clone is None:
            raise exceptions.NotPossible(
                f'Load balancer {name_or_id} has no clone: make one with '
                f'"clone create".')
        return self.read_pair(source_id, clone)

    def read_pair(self, source_id, clone):
        """Read a pair; the source may be gone."""
        root = self.load_balancers.find(source_id)
        source = self.load_balancers.read_tree(root) if root else None
        tree = self.load_balancers.read_tree(clone)
        ours = set(clone_tags.values(clone['tags'], clone_tags.FLOATING_IP))
        there = self.floating_ips.get_all(tree)
        return Pair(source, tree,
                    self.floating_ips.get_all(source) if source else [],
                    [each for each in there if each.id in ours],
                    [each for each in there if each.id not in ours])

    def get_pairs(self):
        """Read all pairs of the project."""
        return [
            self.read_pair(source_id, raw)
            for raw in self.load_balancers.get_all()
            for source_id in clone_tags.values(raw['tags'],
                                               clone_tags.CLONE_OF)[:1]]

    def check(self, source_id, options):
        """Check a source; return (findings, its Tree, its floating IPs)."""
        source = self.load_balancers.read_tree(
            self.load_balancers.get(source_id))
        floating_ips = self.floating_ips.get_all(source)
        project_id = source.root['project_id']
        return preflight.check(
            source, floating_ips,
            self.load_balancers.find_clones(source_id),
            self.load_balancers.find_quota(project_id),
            self.load_balancers.count_all(project_id), options
        ), source, floating_ips

    # Making

    def create(self, name_or_id, options, tell=lambda text: None,
               dry_run=False):
        """Make a clone, or complete one.

        :returns: a Pair; None in a dry run.
        :raises NotPossible: if it cannot be made; it is deleted again then.
        """
        source_id, clone = self.resolve(name_or_id)
        if dry_run:
            if clone:
                return self.read_pair(source_id, clone)
            self._prepare(source_id, options, tell)
            return None
        if clone and clone['provisioning_status'] == 'ERROR':
            self._drop_failed(source_id, clone)
            clone = None
        made = clone is None
        if made:
            clone = self._make(source_id, options, tell)
        try:
            # An unfinished clone has its name already.
            pair = self._complete(
                source_id, clone, options.name if made else clone['name'],
                tell)
        except exceptions.CloudUnavailable:
            # It is not known to be bad: the next run goes on with it.
            raise
        except exceptions.HMSyncException as e:
            if not made:
                raise
            tell(f'The clone {clone["id"]} is deleted again.')
            self.load_balancers.delete(clone['id'])
            raise exceptions.NotPossible(
                f'Load balancer {source_id} could not be cloned: {e} The '
                f'clone is deleted.') from e
        return pair

    def _drop_failed(self, source_id, clone):
        pair = self.read_pair(source_id, clone)
        if pair.at_clone or pair.others:
            raise exceptions.NotPossible(
                f'The clone {clone["id"]} is in ERROR, and floating IPs lead '
                f'to it: run "clone back" first.')
        self.load_balancers.delete(clone['id'])

    def _prepare(self, source_id, options, tell):
        """Return the request that makes a clone."""
        findings, source, floating_ips = self.check(source_id, options)
        refused = [each.text for each in findings
                   if each.result == preflight.REFUSED]
        if refused:
            raise exceptions.NotPossible(
                f'Load balancer {source_id} cannot be cloned: '
                f'{"; ".join(refused)}.')
        for each in findings:
            if each.result == preflight.NOTE:
                tell(f'Note: {each.text}.')
        return trees.build_request(source, options.name,
                                   [each.id for each in floating_ips])

    def _make(self, source_id, options, tell):
        body = self._prepare(source_id, options, tell)
        try:
            return self.load_balancers.create(body)
        except exceptions.CloudUnavailable:
            # The request may have succeeded, and its answer got lost.
            clone = self._get_clone(source_id)
            if clone is None:
                raise
            return clone

    def _complete(self, source_id, clone, name, tell):
        """Wait for a clone, name its pools, compare it."""
        self._settle(clone['id'], tell)
        self._yield_to_older(source_id, clone)
        pair = self.read_pair(source_id,
                              self.load_balancers.get(clone['id']))
        if pair.source is None:
            raise exceptions.NotPossible(
                f'Load balancer {source_id} is gone while it was cloned.')
        renames = trees.find_renames(pair.source, pair.clone)
        for pool_id, pool_name in renames.items():
            self.load_balancers.rename_pool(clone['id'], pool_id, pool_name)
        pair = self.read_pair(source_id, self._settle(clone['id'], tell))
        differences = diff.compare(pair.source, pair.clone, name)
        if differences:
            raise exceptions.NotPossible(
                f'The clone {clone["id"]} is not equal to its source: '
                f'{describe(differences)}.')
        return pair

    def _settle(self, clone_id, tell):
        root = self.load_balancers.wait_until_settled(clone_id, tell)
        if root['provisioning_status'] != 'ACTIVE':
            raise exceptions.NotPossible(
                f'The clone {clone_id} is in ERROR: Octavia could not build '
                f'it. Ask its operator.')
        return root

    def _yield_to_older(self, source_id, clone):
        """Decide which clone stays, if two were begun at once."""
        for first in self.load_balancers.find_clones(source_id)[:1]:
            if first['id'] != clone['id']:
                raise exceptions.NotPossible(
                    f'Another clone has been begun, {first["id"]}.')

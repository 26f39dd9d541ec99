# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync resize."""

import dataclasses
import json
import time

from octavia_hmsync.cli import base
from octavia_hmsync.cluster.cli import cluster as cluster_commands
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.rules import flavor as cluster_flavor
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.image import causes
from octavia_hmsync.image.cli import replace
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image import whereabouts


_SIZES = {sizes.DESIRED_SIZE: 'desired_size', sizes.MIN_SIZE: 'min_size'}


class Resize(replace.Replace):
    """Give a load balancer another flavor of Octavia, make before break.

    Its amphorae of another compute flavor are replaced, as by "image replace".
    A flavor of the other topology makes a pair of a SINGLE load balancer, and
    the other way round: all new amphorae are built and proven before an old
    one goes. A cluster also gets the sizes and the manager of the flavor, as
    by "cluster set"; a flavor without these leaves them as they are. VIP and
    statistics stay. To go back, resize it again.
    """

    FORCE = 'replace amphorae that have the compute flavor, too, or an ' \
            'unknown one'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        flavor = parser.add_mutually_exclusive_group(required=True)
        flavor.add_argument('--flavor', metavar='<flavor>',
                            help='name or id of a flavor of Octavia')
        flavor.add_argument('--no-flavor', action='store_true',
                            help='the values of octavia.conf')
        return parser

    def _plan(self, conf, engine, load_balancer, found, parsed_args):
        new = _find_flavor(conf, engine, parsed_args.flavor)
        self._flavor_id = new and new.id
        self._cause = find_cause(load_balancer, new)
        self._old_id = load_balancer.flavor_id
        self._engine = engine
        self._cluster = cluster_repo.get_by_load_balancer(engine,
                                                          load_balancer.id)
        data = (new and _read(new)) or {}
        self._is_sized = (self._cluster is not None and
                          not data.keys().isdisjoint(_SIZES))
        if found is not None:
            if self._old_id == self._flavor_id and whereabouts.get_cause(
                    found).kind in (causes.Kind.FLAVOR, causes.Kind.TOPOLOGY):
                # The order of before has its sizes.
                self._changes = {}
                return load_balancer
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} is being replaced already, '
                f'by replacement {found.id}: wait for it, and run the command '
                f'again.')
        problem = new and why_not(load_balancer, new)
        if problem:
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} cannot get '
                f'{_describe(self._flavor_id)}: {problem}')
        if self._cause.kind is causes.Kind.TOPOLOGY:
            problem = why_not_changed(load_balancer, parsed_args.mode)
            if problem:
                raise exceptions.NotPossible(
                    f'The topology of load balancer {load_balancer.id} cannot '
                    f'become {self._cause.value}: {problem}')
        self._changes = self._find_changes(conf, data)
        self._built_first = causes.count_new(self._cause)
        if 'desired_size' in self._changes:
            self._built_first += max(0, self._changes['desired_size'] -
                                     self._cluster.desired_size)
        return inventory.Inventory(conf, engine).with_flavor(
            load_balancer, self._flavor_id)

    def _find_changes(self, conf, data):
        """Return what changes of a cluster, or raise NotPossible."""
        if self._cluster is None:
            return {}
        affinity = data.get(sizes.AFFINITY, self._cluster.affinity)
        if affinity != self._cluster.affinity:
            self.app.stderr.write(
                f'The flavor has {sizes.AFFINITY} = {affinity}, and the '
                f'cluster keeps {self._cluster.affinity}: another one would '
                f'break the connections of its clients.\n')
        wanted = {name: sizes.read_size(data, key)
                  for key, name in _SIZES.items()}
        wanted['cluster_type'] = data.get(cluster_flavor.MANAGER)
        return cluster_commands.find_changes(conf, self._cluster, {
            name: value for name, value in wanted.items()
            if value is not None})

    def take_action(self, parsed_args):
        """Order replacements and sizes; with --wait, wait for both."""
        began = time.monotonic()
        super().take_action(parsed_args)
        if parsed_args.dry_run:
            self._tell_changes(True)
        elif parsed_args.wait and self._is_sized:
            self._wait_for_sizes(parsed_args.timeout and max(
                1, parsed_args.timeout - (time.monotonic() - began)))

    def _tell_changes(self, dry_run=False):
        if self._changes:
            self._say(cluster_commands.describe_changes(
                self._cluster, self._changes, dry_run))

    def _wait_for_sizes(self, timeout):
        cluster_id = self._cluster.id
        base.follow(
            self.app, lambda: cluster_commands.look(self._engine, cluster_id),
            cluster_commands.describe_going_on(cluster_id), timeout)

    def _describe_more(self):
        return (f' and topology {self._cause.value}'
                if self._cause.kind is causes.Kind.TOPOLOGY else '')

    def _find_old(self, conf, engine, load_balancer, _image_id):
        return whereabouts.Selection(conf, engine, self._cause).find(
            load_balancer)

    def _end(self, engine, load_balancer, _image_id, parsed_args):
        flavor = _describe(self._flavor_id)
        if self._flavor_id == self._old_id and not self._changes:
            self._say(f'Load balancer {load_balancer.id} has {flavor}, and '
                      f'all of its amphorae its compute flavor: there is '
                      f'nothing to do.')
            return
        if parsed_args.dry_run:
            self._say(f'Load balancer {load_balancer.id} would get {flavor}, '
                      f'and no amphora would be replaced.')
            return
        if not self._write(engine, load_balancer.id):
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} was changed by another '
                f'command at this moment: run the command again.')
        self._say(f'Load balancer {load_balancer.id} has {flavor} now, and '
                  f'all of its amphorae its compute flavor. Where that names '
                  f'another image, "octavia-hmsync image replace" brings it.')

    def _order(self, engine, new):
        return self._write(engine, new.load_balancer_id, dataclasses.replace(
            new, cause=self._cause.kind.value, cause_value=self._cause.value))

    def _write(self, engine, load_balancer_id, new=None):
        """Write flavor, order and sizes; returns whether all was done."""
        is_done = _resize(engine, (load_balancer_id, self._flavor_id,
                                   self._old_id, new),
                          self._cluster and self._cluster.id, self._changes)
        if is_done:
            self._tell_changes()
        return is_done


@api.transaction
def _resize(connection, order, cluster_id, changes):
    """Do all of it, or nothing; returns whether it was done."""
    if not replace_repo.resize(connection, *order):
        return False
    if changes and not cluster_repo.set_sizes(connection, cluster_id,
                                              **changes):
        connection.rollback()
        return False
    return True


def _find_flavor(conf, engine, name):
    """Return the row of a flavor, None for None, or raise NotPossible."""
    if name is None:
        return None
    flavor_id, _name = selection.find_flavor(conf, engine, name)
    return next(row for row in inventory_repo.get_flavors(engine)
                if row.id == flavor_id)


def _describe(flavor_id):
    return f'flavor {flavor_id}' if flavor_id else 'no flavor'


def find_cause(load_balancer, flavor):
    """Return the Cause of a resize; pure.

    A flavor without a topology leaves that as it is.

    :param flavor: a row of get_flavors(), or None.
    """
    data = (flavor and _read(flavor)) or {}
    topology = data.get(compat.FLAVOR_TOPOLOGY)
    if (topology in (None, load_balancer.topology) or
            load_balancer.provider == compat.CLUSTER_PROVIDER):
        return causes.Cause(causes.Kind.FLAVOR, flavor and flavor.id)
    return causes.Cause(causes.Kind.TOPOLOGY, topology)


def _read(flavor):
    """Return the data of a flavor, None if it cannot be read."""
    try:
        data = json.loads(flavor.flavor_data)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def why_not_changed(load_balancer, mode):
    """Tell why its topology cannot change now, None if it can; pure."""
    if mode != rollout_repo.REPLACE:
        return 'only mode replace does that: leave out --mode.'
    for amphora in outdated.get_allocated(load_balancer):
        if (compat.TOPOLOGY_OF_ROLE.get(amphora.role) !=
                load_balancer.topology):
            return (f'amphora {amphora.id} has the role {amphora.role}, which '
                    f'is none of {load_balancer.topology}: run "openstack '
                    f'loadbalancer failover {load_balancer.id}" first.')
    return None


def why_not(load_balancer, flavor):
    """Tell why a load balancer cannot get a flavor, None if it can; pure.

    :param flavor: a row of get_flavors().
    """
    data = _read(flavor)
    if data is None:
        return ('it cannot be read: see "openstack loadbalancer '
                'flavorprofile show".')
    if not flavor.enabled:
        return ('it is disabled: run "openstack loadbalancer flavor set '
                '--enable" first.')
    is_cluster = load_balancer.provider == compat.CLUSTER_PROVIDER
    own = ((compat.CLUSTER_PROVIDER,) if is_cluster
           else compat.AMPHORA_PROVIDERS)
    if flavor.provider_name not in own:
        return (f'it is for provider {flavor.provider_name}, and the load '
                f'balancer has {load_balancer.provider}: create another one.')
    if is_cluster:
        try:
            cluster_flavor.check(data)
        except cluster_flavor.Invalid as e:
            return f'{e.user}.'
    topology = data.get(compat.FLAVOR_TOPOLOGY)
    if not is_cluster and topology not in (None,
                                           *compat.AMPHORAE_OF_TOPOLOGY):
        return (f'it is for topology {topology}, and amphorae have '
                f'{" or ".join(compat.AMPHORAE_OF_TOPOLOGY)}: correct its '
                f'profile.')
    if data.get(compat.FLAVOR_SRIOV):
        return ('its VIP is on a virtual function of a network card, which '
                'is made with the load balancer.')
    return None

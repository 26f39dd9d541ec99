# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync resize."""

import dataclasses
import json

from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image import causes
from octavia_hmsync.image.cli import replace
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import whereabouts


class Resize(replace.Replace):
    """Give a load balancer another flavor of Octavia, make before break.

    Its amphorae of another compute flavor are replaced, as by "image replace";
    VIP and statistics stay. A flavor of another topology is refused, since no
    running load balancer can change that. To go back, resize it to the flavor
    of before.
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
        self._cause = causes.Cause(causes.Kind.FLAVOR, new and new.id)
        self._old_id = load_balancer.flavor_id
        if found is not None:
            if (whereabouts.get_cause(found) == self._cause and
                    self._old_id == self._cause.value):
                return load_balancer
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} is being replaced already, '
                f'by replacement {found.id}: wait for it, and run the command '
                f'again.')
        problem = new and why_not(load_balancer, new)
        if problem:
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} cannot get '
                f'{_describe(self._cause.value)}: {problem}')
        return inventory.Inventory(conf, engine).with_flavor(
            load_balancer, self._cause.value)

    def _find_old(self, conf, engine, load_balancer, _image_id):
        return whereabouts.Selection(conf, engine, self._cause).find(
            load_balancer)

    def _end(self, engine, load_balancer, _image_id, parsed_args):
        flavor = _describe(self._cause.value)
        if self._cause.value == self._old_id:
            self._say(f'Load balancer {load_balancer.id} has {flavor}, and '
                      f'all of its amphorae its compute flavor: there is '
                      f'nothing to do.')
            return
        if parsed_args.dry_run:
            self._say(f'Load balancer {load_balancer.id} would get {flavor}, '
                      f'and no amphora would be replaced.')
            return
        if not replace_repo.resize(engine, load_balancer.id,
                                   self._cause.value, self._old_id):
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} was changed by another '
                f'command at this moment: run the command again.')
        self._say(f'Load balancer {load_balancer.id} has {flavor} now, and '
                  f'all of its amphorae its compute flavor. Where that names '
                  f'another image, "octavia-hmsync image replace" brings it.')

    def _order(self, engine, new):
        return replace_repo.resize(
            engine, new.load_balancer_id, self._cause.value, self._old_id,
            dataclasses.replace(new, cause=self._cause.kind.value,
                                cause_value=self._cause.value))


def _find_flavor(conf, engine, name):
    """Return the row of a flavor, None for None, or raise NotPossible."""
    if name is None:
        return None
    flavor_id, _name = selection.find_flavor(conf, engine, name)
    return next(row for row in inventory_repo.get_flavors(engine)
                if row.id == flavor_id)


def _describe(flavor_id):
    return f'flavor {flavor_id}' if flavor_id else 'no flavor'


def why_not(load_balancer, flavor):
    """Tell why a load balancer cannot get a flavor, None if it can; pure.

    A flavor without a topology leaves that as it is.

    :param flavor: a row of get_flavors().
    """
    try:
        data = json.loads(flavor.flavor_data)
        topology = data.get(compat.FLAVOR_TOPOLOGY, load_balancer.topology)
        has_sriov = bool(data.get(compat.FLAVOR_SRIOV))
    except (ValueError, AttributeError):
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
    if not is_cluster and topology != load_balancer.topology:
        return (f'it is for topology {topology}, and the load balancer has '
                f'{load_balancer.topology}, which stays as long as it lives: '
                f'create another one.')
    if has_sriov:
        return ('its VIP is on a virtual function of a network card, which '
                'is made with the load balancer.')
    return None

# SPDX-License-Identifier: Apache-2.0

"""The load balancers with their amphorae and tags, page by page.

A page takes three statements, however many load balancers it has.
"""

import dataclasses
import itertools

from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image import target


class Inventory:
    """Reads load balancers; flavors only once, when it is made."""

    def __init__(self, conf, engine):
        self._engine = engine
        self._default = conf.controller_worker.amp_image_tag
        self._flavors = {row.id: row
                         for row in inventory_repo.get_flavors(engine)}

    def get_page(self, after=None, limit=None, tag=None, flavor=None,
                 project_id=None, topology=None, availability_zone=None,
                 with_places=False):
        """Return load balancers with amphorae of Octavia's own.

        :param tag: only if the next amphora boots from an image with this tag.
        :param flavor: only of this flavor, a name or an id.
        :param with_places: whether to read where amphorae run, too.
        """
        return self._read(inventory_repo.Wanted(
            project_id=project_id, topology=topology,
            availability_zone=availability_zone,
            flavor_ids=self._find_flavors(tag, flavor),
            providers=inventory_repo.PROVIDERS), after, limit, with_places)

    def get(self, load_balancer_id):
        """Return one LoadBalancer of any provider, or None."""
        found = self._read(inventory_repo.Wanted(load_balancer_id),
                           with_places=True)
        return found[0] if found else None

    def with_flavor(self, load_balancer, flavor_id):
        """Return a LoadBalancer as it is with another flavor, or none."""
        return dataclasses.replace(load_balancer, flavor_id=flavor_id,
                                   tag=self._get_tag(flavor_id))

    def get_tags(self):
        """Return the tags of images from which load balancers may boot."""
        return {self._default, *map(self._get_tag, self._flavors)}

    def get_flavor_name(self, flavor_id):
        """Return the name of a flavor by its id; None for None."""
        row = self._flavors.get(flavor_id)
        return row.name if row else flavor_id

    def _find_flavors(self, tag, flavor):
        """Return the ids of flavors that match, or None if any does."""
        if tag is None and flavor is None:
            return None
        ids = {row.id for row in self._flavors.values()
               if flavor in (None, row.id, row.name) and
               tag in (None, self._get_tag(row.id))}
        if flavor is None and tag == self._default:
            return {None, *ids}
        return ids

    def _get_tag(self, flavor_id):
        row = self._flavors.get(flavor_id)
        return target.get_tag(row.flavor_data if row else None, self._default)

    def _read(self, wanted, after=None, limit=None, with_places=False):
        rows, amphora_rows = inventory_repo.get_page(
            self._engine, wanted, after, limit, with_places)
        make = _make_placed if with_places else _make_amphora
        amphorae = {
            load_balancer_id: tuple(map(make, group))
            for load_balancer_id, group in itertools.groupby(
                amphora_rows, lambda row: row.load_balancer_id)}
        tags = {flavor_id: self._get_tag(flavor_id)
                for flavor_id in {row.flavor_id for row in rows}}
        return [outdated.LoadBalancer(
            row.id, row.name, row.project_id, row.provider, row.topology,
            row.provisioning_status, row.flavor_id, row.availability_zone,
            row.server_group_id, tags[row.flavor_id],
            amphorae.get(row.id, ()), row.operating_status,
            row.updated_at or row.created_at) for row in rows]


def _make_amphora(row):
    return outdated.Amphora(row.id, row.status, row.role, row.image_id,
                            row.lb_network_ip, bool(row.busy))


def _make_placed(row):
    return outdated.Amphora(
        row.id, row.status, row.role, row.image_id, row.lb_network_ip,
        bool(row.busy), row.compute_id, row.cached_zone, row.compute_flavor,
        row.cert_expiration, row.created_at)

# SPDX-License-Identifier: Apache-2.0

"""Finds, makes and adopts the parts of a management network."""

import dataclasses
import uuid

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync.network import marks


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of resource: its noun, and its names in the SDK."""

    noun: str
    singular: str
    plural: str


# Ports per request, so that each request ends in time with thousands of them.
PAGE = 500

NETWORK = Kind('network', 'network', 'networks')
SUBNET = Kind('subnet', 'subnet', 'subnets')
GROUP = Kind('security group', 'security_group', 'security_groups')


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of the network that must exist.

    :param wanted: {attribute: value} that our own part must have.
    :param query: further filters for lists, and attributes at its creation.
    """

    kind: Kind
    role: str
    name: str
    wanted: dict = dataclasses.field(default_factory=dict)
    query: dict = dataclasses.field(default_factory=dict)

    @property
    def title(self):
        """Its kind and name."""
        return f'{self.kind.noun} {self.name}'


def describe(resource):
    """Name a resource for an operator."""
    return f'{resource.name or "without a name"} ({resource.id})'


class Parts:
    """A network's parts in Neutron; recorded: {role: id} of known ones."""

    def __init__(self, conf, connection, network_name, changes,
                 recorded=None):
        self._conf = conf
        self._network_name = network_name
        self._changes = changes
        self._recorded = recorded or {}
        self._call = uuid.uuid4().hex
        # Lines for the operator.
        self.notes = []
        with cloud.reported(conf, 'find the Neutron API'):
            project_id = connection.current_project_id
            self._proxy = connection.network
        # An administrator sees the networks of all projects.
        self.scope = {'project_id': project_id} if project_id else {}

    def _method(self, verb, kind):
        return getattr(self._proxy, f'{verb}_{kind.singular}')

    def delete(self, kind, resource_id):
        """Delete a resource of a Kind; a missing one is no error."""
        self._method('delete', kind)(resource_id)

    def update(self, kind, resource_id, **attributes):
        """Set attributes of a resource of a Kind."""
        self._method('update', kind)(resource_id, **attributes)

    def list(self, kind, **query):
        """Return the resources of a Kind in the project."""
        with cloud.reported(self._conf, f'look for {kind.noun}s'):
            return list(getattr(self._proxy, kind.plural)(
                **query, **self.scope))

    def get(self, kind, resource_id):
        """Return a resource of a Kind by its id, None if it is gone."""
        with cloud.reported(self._conf, f'look for the {kind.noun} '
                                        f'{resource_id}'):
            try:
                return self._method('get', kind)(resource_id)
            except sdk_exc.NotFoundException:
                return None

    def _mark(self, part):
        return marks.Mark(self._network_name, part.role)

    def description(self, part):
        """Return the description of a part that this call makes."""
        return self._mark(part).description(self._call)

    def has_made(self, part, description):
        """Tell whether a description was written by such a call."""
        return self._mark(part).is_in(description)

    def find(self, part):
        """Look for a part.

        :returns: (our own, others of its name), lists of SDK resources. Our
                  own list begins with the part in use: the recorded one,
                  otherwise the oldest.
        """
        mark = self._mark(part)
        known = self._recorded.get(part.role)
        # On MariaDB Neutron's search ignores case and accents.
        named = [r for r in self.list(part.kind, name=part.name,
                                      **part.query) if r.name == part.name]
        ours = [r for r in named if mark.is_on(r) or r.id == known]
        if known and known not in [r.id for r in ours]:
            # It was renamed.
            resource = self.get(part.kind, known)
            ours += [resource] if resource else []
        if not ours:
            ours = self.list(part.kind, tags=','.join(mark.tags),
                             **part.query)
        ours = sorted((r for r in ours if not marks.is_orphaned(r)),
                      key=lambda r: (r.id != known, r.created_at or '', r.id))
        ids = [r.id for r in ours]
        return ours, [r for r in named
                      if r.id not in ids and not marks.is_orphaned(r)]

    def create(self, part):
        """Make a part; return its SDK resource, None in a dry run.

        :raises CloudRefused: if Neutron says no.
        :raises CloudUnavailable: if it does not answer.
        """
        description = self.description(part)
        made = self._changes.make(
            part.title,
            lambda: self._method('create', part.kind)(
                name=part.name, description=description, **part.wanted,
                **part.query, **self.scope),
            lambda resource_id: self.delete(part.kind, resource_id),
            lambda: self.list(part.kind, description=description),
            part.query.get('network_id'))
        if made:
            with cloud.reported(self._conf, f'tag the {part.title}'):
                self._proxy.set_tags(made, list(self._mark(part).tags))
        return made

    def adopt(self, part, resource):
        """Use an existing resource as a part."""
        before = list(resource.tags or ())
        self._changes.change(
            f'adopt the {part.kind.noun} {describe(resource)}',
            # It may have been adopted before, under another network_name.
            lambda: self._proxy.set_tags(resource, list(dict.fromkeys(
                (*before, *self._mark(part).tags)))),
            lambda: self._proxy.set_tags(resource, before))

    def repair(self, part, resource):
        """Restore the tags, name and attributes of a part.

        An adopted part keeps its own name and attributes. So does a part whose
        description an operator has changed: it counts as adopted, because not
        deleting our part is better than deleting another's.
        """
        title = f'{part.kind.noun} {describe(resource)}'
        wanted = {'name': part.name, **part.wanted}
        wrong = {name: value for name, value in wanted.items()
                 if getattr(resource, name) != value}
        if wrong and self.has_made(part, resource.description):
            words = ', '.join(f'{name} = {value}'
                              for name, value in wrong.items())
            self._changes.change(
                f'set {words} of the {title}',
                lambda: self.update(part.kind, resource.id, **wrong))
        tags = resource.tags or []
        missing = [t for t in self._mark(part).tags if t not in tags]
        if missing:
            self._changes.change(
                f'tag the {title}',
                lambda: self._proxy.set_tags(resource, tags + missing))

    def note_duplicates(self, part, ours):
        """Tell the operator of duplicate parts."""
        for resource in ours[1:]:
            self.notes.append(
                f'The {part.kind.noun} {describe(resource)} is a second one; '
                f'{ours[0].id} is in use. Delete it.')

    def is_still(self, part, resource):
        """Tell whether a resource is still the one in use for a part.

        Another process may have made the same part at the same time.
        """
        ours, _others = self.find(part)
        return bool(ours) and ours[0].id == resource.id

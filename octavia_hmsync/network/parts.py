# SPDX-License-Identifier: Apache-2.0

"""Finds, makes and adopts the parts of a management network."""

import dataclasses
import uuid

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync.network import marks


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of resource of Neutron.

    :param noun: what an operator calls it.
    :param singular: what the SDK calls one.
    :param plural: and several.
    """

    noun: str
    singular: str
    plural: str


# Of thousands of ports, as many per request: each has to end in time.
PAGE = 500

NETWORK = Kind('network', 'network', 'networks')
SUBNET = Kind('subnet', 'subnet', 'subnets')
GROUP = Kind('security group', 'security_group', 'security_groups')


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of the network that is to be there.

    :param kind: its Kind.
    :param role: which part; see marks.
    :param name: its name.
    :param wanted: {attribute: value} that it has to have, if it is ours.
    :param query: what else tells where it is, for lists and at its creation.
    """

    kind: Kind
    role: str
    name: str
    wanted: dict = dataclasses.field(default_factory=dict)
    query: dict = dataclasses.field(default_factory=dict)

    @property
    def title(self):
        """What it is and its name."""
        return f'{self.kind.noun} {self.name}'


def describe(resource):
    """Name a resource for an operator."""
    return f'{resource.name or "without a name"} ({resource.id})'


class Parts:
    """The parts of one management network in Neutron.

    :param conf: the oslo.config object of the connection.
    :param connection: an openstack.connection.Connection.
    :param network_name: ``[hmsync_network] network_name``.
    :param changes: the changes.Changes of this call.
    :param recorded: {role: id} of the parts that are known.
    """

    def __init__(self, conf, connection, network_name, changes,
                 recorded=None):
        self._conf = conf
        self._network_name = network_name
        self._changes = changes
        self._recorded = recorded or {}
        self._call = uuid.uuid4().hex
        # What an operator should know, in words.
        self.notes = []
        with cloud.reported(conf, 'find the Neutron API'):
            project_id = connection.current_project_id
            self._proxy = connection.network
        # An administrator sees the networks of all projects.
        self.scope = {'project_id': project_id} if project_id else {}

    def _method(self, verb, kind):
        return getattr(self._proxy, f'{verb}_{kind.singular}')

    def delete(self, kind, resource_id):
        """Delete something of a Kind; one that is gone is no error."""
        self._method('delete', kind)(resource_id)

    def update(self, kind, resource_id, **attributes):
        """Set attributes of something of a Kind."""
        self._method('update', kind)(resource_id, **attributes)

    def list(self, kind, **query):
        """Return what there is of a kind in the project.

        :param kind: a Kind.
        :param query: filters.
        :returns: a list of SDK resources.
        """
        with cloud.reported(self._conf, f'look for {kind.noun}s'):
            return list(getattr(self._proxy, kind.plural)(
                **query, **self.scope))

    def get(self, kind, resource_id):
        """Return something of a Kind by its id, None if it is gone."""
        with cloud.reported(self._conf, f'look for the {kind.noun} '
                                        f'{resource_id}'):
            try:
                return self._method('get', kind)(resource_id)
            except sdk_exc.NotFoundException:
                return None

    def _mark(self, part):
        return marks.Mark(self._network_name, part.role)

    def description(self, part):
        """Return the description of what this call makes for a part."""
        return self._mark(part).description(self._call)

    def has_made(self, part, description):
        """Tell whether a description is that of any such call."""
        return self._mark(part).is_in(description)

    def find(self, part):
        """Look for a part.

        :param part: a Part.
        :returns: (what is ours, what only has its name), lists of SDK
                  resources. Of the first the one that counts comes first:
                  the one that is known, else the oldest.
        """
        mark = self._mark(part)
        known = self._recorded.get(part.role)
        # On MariaDB Neutron finds names in capitals, and with accents, too.
        named = [r for r in self.list(part.kind, name=part.name,
                                      **part.query) if r.name == part.name]
        ours = [r for r in named if mark.is_on(r) or r.id == known]
        if known and known not in [r.id for r in ours]:
            # Renamed.
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
        """Make a part.

        :param part: a Part.
        :returns: the SDK resource, None in a dry run.
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
        """Make something a part that was there before.

        :param part: a Part.
        :param resource: the SDK resource.
        """
        before = list(resource.tags or ())
        self._changes.change(
            f'adopt the {part.kind.noun} {describe(resource)}',
            # Under another network_name it may have been adopted before.
            lambda: self._proxy.set_tags(resource, list(dict.fromkeys(
                (*before, *self._mark(part).tags)))),
            lambda: self._proxy.set_tags(resource, before))

    def repair(self, part, resource):
        """Give a part its tags, name and attributes back.

        What was adopted keeps its own name and attributes. Whoever has
        changed the description has adopted it, too: better not to delete
        what is ours than what is not.

        :param part: a Part.
        :param resource: the SDK resource.
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
        """Tell the operator of parts that there are twice."""
        for resource in ours[1:]:
            self.notes.append(
                f'The {part.kind.noun} {describe(resource)} is a second one; '
                f'{ours[0].id} is in use. Delete it.')

    def is_still(self, part, resource):
        """Tell whether something still is what counts of a part.

        Somebody else may have made the same at the same time.

        :param part: a Part.
        :param resource: an SDK resource.
        """
        ours, _others = self.find(part)
        return bool(ours) and ours[0].id == resource.id

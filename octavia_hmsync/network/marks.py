# SPDX-License-Identifier: Apache-2.0

"""How the plugin recognizes its own resources in Neutron.

Tags mark them and can be searched for. But Neutron takes tags only after a
resource was made. So its description marks it, too, in case a command dies in
between.
"""

import dataclasses

TAG = 'octavia-hmsync'
ORPHANED_TAG = f'{TAG}-orphaned'
ORPHANED_SUFFIX = '-orphaned'

# Roles that exist once in each management network.
NETWORK = 'network'
SUBNET = 'subnet'
AMPHORA_GROUP = 'amphora-security-group'
HEALTH_MANAGER_GROUP = 'health-manager-security-group'


@dataclasses.dataclass(frozen=True)
class Mark:
    """The mark of a part, by its role, such as NETWORK."""

    network_name: str
    role: str

    @property
    def tags(self):
        """The tags that every part of this role has, a tuple."""
        return (TAG, f'{TAG}-name:{self.network_name}',
                f'{TAG}-role:{self.role}')

    @property
    def _made_by_us(self):
        return (f'Made by octavia-hmsync for {self.network_name}, as its '
                f'{self.role}; call ')

    def description(self, call):
        """Return the description of a resource that a call makes."""
        return f'{self._made_by_us}{call}.'

    def is_in(self, description):
        """Tell whether a description is from description().

        A resource with the tags but another description was only adopted.
        """
        return (description or '').startswith(self._made_by_us)

    def is_on(self, resource):
        """Tell whether an SDK resource carries the mark."""
        return not is_orphaned(resource) and (
            set(self.tags) <= set(resource.tags or ()) or
            self.is_in(resource.description))


def is_orphaned(resource):
    """Tell whether something was in use when its network was deleted.

    Tag or description is enough, as a command may have died between the two.
    """
    return (ORPHANED_TAG in (resource.tags or ()) or
            (resource.description or '').startswith(_ORPHANED))


_ORPHANED = 'Left by octavia-hmsync: in use when '


def orphaned_description(network_name):
    """Return the description of what is left of a deleted network."""
    return f'{_ORPHANED}{network_name} was deleted.'


def without_ours(tags):
    """Return the tags that are not the plugin's, a list."""
    return [tag for tag in tags or () if not tag.startswith(TAG)]

# SPDX-License-Identifier: Apache-2.0

"""How the plugin finds again in Neutron what is its own.

Tags say it, and can be searched for; but Neutron takes them only after
something was made, so that its description says it too: what a command that
died half-way has left is not lost.
"""

import dataclasses

TAG = 'octavia-hmsync'
ORPHANED_TAG = f'{TAG}-orphaned'
ORPHANED_SUFFIX = '-orphaned'

# What there is one of in each management network.
NETWORK = 'network'
SUBNET = 'subnet'
AMPHORA_GROUP = 'amphora-security-group'
HEALTH_MANAGER_GROUP = 'health-manager-security-group'


@dataclasses.dataclass(frozen=True)
class Mark:
    """What marks a part of a management network.

    :param network_name: ``[hmsync_network] network_name``.
    :param role: which part, such as NETWORK.
    """

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
        """Return the description of what a call makes.

        :param call: an id of the call.
        """
        return f'{self._made_by_us}{call}.'

    def is_in(self, description):
        """Tell whether a description is one of those.

        What has the tags without it was there before, and is only adopted.
        """
        return (description or '').startswith(self._made_by_us)

    def is_on(self, resource):
        """Tell whether something carries the mark.

        :param resource: an SDK resource with name, description and tags.
        """
        return not is_orphaned(resource) and (
            set(self.tags) <= set(resource.tags or ()) or
            self.is_in(resource.description))


def is_orphaned(resource):
    """Tell whether something was in use when its network was deleted.

    One of its marks is enough: a command may have died between the two.
    """
    return (ORPHANED_TAG in (resource.tags or ()) or
            (resource.description or '').startswith(_ORPHANED))


_ORPHANED = 'Left by octavia-hmsync: in use when '


def orphaned_description(network_name):
    """Return the description of what is left of a network.

    :param network_name: ``[hmsync_network] network_name``.
    """
    return f'{_ORPHANED}{network_name} was deleted.'


def without_ours(tags):
    """Return those tags that are not the plugin's, a list.

    :param tags: tags of something in Neutron.
    """
    return [tag for tag in tags or () if not tag.startswith(TAG)]

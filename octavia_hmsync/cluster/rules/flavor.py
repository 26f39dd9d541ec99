# SPDX-License-Identifier: Apache-2.0

"""What a flavor of provider ``amphora_cluster`` may have."""

import jsonschema

from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync.compat import provider

# Octavia's own keys that clusters support. New keys of Octavia are rejected
# until they are known to work.
KEPT = (provider.COMPUTE_FLAVOR, provider.AMP_IMAGE_TAG)

MANAGER = 'cluster_manager'

# Octavia's own keys that a cluster cannot have, and why.
REFUSED = {
    provider.LOADBALANCER_TOPOLOGY:
        f'{provider.LOADBALANCER_TOPOLOGY} is not for clusters, whose '
        f'topology is ACTIVE_ACTIVE: take it out of the flavor, or use '
        f'provider amphora',
    provider.SRIOV_VIP:
        f'{provider.SRIOV_VIP} is not for clusters: distributors forward the '
        f'traffic of the VIP, and an SR-IOV port (vnic_type direct) would '
        f'bypass them; take it out of the flavor, or use provider amphora',
}

_PROPERTIES = {
    sizes.DESIRED_SIZE: {
        'type': 'integer',
        'minimum': 1,
        'description': 'Number of amphorae of the cluster.',
    },
    sizes.MIN_SIZE: {
        'type': 'integer',
        'minimum': 1,
        'description': 'Number of amphorae that must be well; with fewer the '
                       'load balancer is in ERROR.',
    },
    sizes.AFFINITY: {
        'type': 'string',
        'enum': list(sizes.AFFINITIES),
        'description': 'What goes to the same amphora. One of: FLOW - Each '
                       'connection by itself. SOURCE_IP - All connections '
                       'of a client\'s address.',
    },
    MANAGER: {
        'type': 'string',
        'minLength': 1,
        'maxLength': 64,
        'description': 'The name of an installed cluster manager, which '
                       'decides for it.',
    },
    **{key: provider.FLAVOR_PROPERTIES[key] for key in KEPT},
}
SCHEMA = {
    '$schema': 'http://json-schema.org/draft-07/schema#',
    'title': 'Metadata of flavors of clusters of amphorae',
    'type': 'object',
    'additionalProperties': False,
    'properties': _PROPERTIES,
}


class Invalid(Exception):
    """A flavor that no cluster can have.

    :param user: what is wrong, for the author of the flavor.
    :param operator: the same with all details.
    """

    def __init__(self, user, operator=None):
        super().__init__(user)
        self.user = user
        self.operator = operator or user


def describe():
    """Return a dict with the description of each key."""
    return {key: value['description']
            for key, value in _PROPERTIES.items()}


def check(flavor):
    """Check a flavor without the options.

    :param flavor: metadata of a flavor, any JSON value.
    :raises Invalid: naming the key.
    """
    if isinstance(flavor, dict):
        for key, why in REFUSED.items():
            if key in flavor:
                raise Invalid(why)
    try:
        jsonschema.validate(flavor, SCHEMA)
    except jsonschema.ValidationError as e:
        key = f'{e.relative_path[0]}: ' if e.relative_path else ''
        raise Invalid(f'{key}{e.message}', str(e)) from None


def choose_kept(flavor):
    """Return the keys of a flavor that Octavia itself checks."""
    return {key: value for key, value in flavor.items() if key in KEPT}

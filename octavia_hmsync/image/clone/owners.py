# SPDX-License-Identifier: Apache-2.0

"""Pure: which controller made a load balancer and keeps changing it.

A controller that finds its load balancer by name, tag or id does not know a
clone. Traces that it leaves at a load balancer give it away; Terraform, and a
Heat template with a name, leave none. The behaviour of each was read in its
source: see doc/source/admin/image-clone.rst.
"""

import dataclasses
import re
import typing

from octavia_hmsync.image.clone import attributes as attrs


@dataclasses.dataclass(frozen=True)
class Owner:
    """A controller that owns load balancers.

    :ivar looks: how it finds its load balancer, and what it does if there are
                 two.
    :ivar afterwards: what it needs when the source is gone.
    :ivar patterns: regular expressions, by attribute.
    """

    name: str
    looks: str
    afterwards: str
    patterns: dict[str, re.Pattern[str]]

    def owns(self, root: attrs.Raw) -> bool:
        """Tell whether a load balancer is one of its own."""
        return any(
            pattern.match(text)
            for attribute, pattern in self.patterns.items()
            for text in _texts(root.get(attribute)))


def _texts(value: object) -> typing.Iterable[str]:
    if isinstance(value, str):
        return (value,)
    return [each for each in value if isinstance(each, str)] if isinstance(
        value, (list, tuple)) else ()


CLOUD_PROVIDER = Owner(
    'the cloud controller manager of Kubernetes',
    'it takes the id in the annotation load-balancer-id of the Service, and '
    'without one the only load balancer of the name: two stop each change of '
    'the Service. New nodes become members of the source alone, and where no '
    'floating IP leads to that it makes another one, or fails',
    'set the annotation loadbalancer.openstack.org/load-balancer-id of the '
    'Service to its id',
    {'name': re.compile('kube_service_'), 'tags': re.compile('kube_service_'),
     'description': re.compile('Kubernetes external service ')})
INGRESS = Owner(
    'octavia-ingress-controller',
    'it takes the only load balancer of the name: two stop each change of '
    'the Ingress',
    'nothing, if it has the name of the source',
    {'name': re.compile('kube_ingress_'),
     'description': re.compile('Kubernetes ingress ')})
CLUSTER_API = Owner(
    'Cluster API (cluster-api-provider-openstack)',
    'it takes the first of a name, of listeners, pools and monitors of the '
    'project, too, and leads the floating IP back to that each time it looks',
    'nothing, if it has the name of the source',
    {'name': re.compile('k8s-clusterapi-cluster-.*-kubeapi$'),
     'description': re.compile('Created by cluster-api-provider-openstack ')})
HEAT = Owner(
    'Heat (or Magnum by it)',
    'it takes the id that it has noted: an update of the stack changes the '
    'source alone, or makes a third one once that is gone, and a deletion '
    'leaves the clone',
    'the stack cannot be told: abandon it, and adopt it anew with its id',
    # Heat's name for an unnamed resource: base32, which contains a digit in
    # nine of ten cases.
    {'name': re.compile(
        r'.+-.+-(?=[a-z2-7]*[2-7])[a-z2-7]{12}$')})
# In the order of the checks.
OWNERS = (CLOUD_PROVIDER, INGRESS, CLUSTER_API, HEAT)


def find(root: attrs.Raw) -> Owner | None:
    """Return the owner of a load balancer, as far as it can be seen."""
    return next((owner for owner in OWNERS if owner.owns(root)), None)

#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Reading what the checks of "image check" have to know."""

from openstack import exceptions as sdk_exc

from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync.db.repositories import image_needs as needs_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image import conf as image_conf
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.mgmt_network import cloud

# Ids in one request to Neutron: the line of a request is no longer than 8 kB.
_AT_ONCE = 100


def read_needs(engine, load_balancers):
    """Read what load balancers need from the database.

    :param engine: an SQLAlchemy engine.
    :param load_balancers: a list of LoadBalancer, by id, not empty.
    :returns: a dict, Needs by id of each.
    """
    found = needs_repo.get_all(engine, load_balancers[0].id,
                               load_balancers[-1].id)
    return {load_balancer.id: _make_needs(found.get(load_balancer.id, {}))
            for load_balancer in load_balancers}


def read_uncommon(engine):
    """Read which load balancers need what modes.why_failover() is about.

    :param engine: an SQLAlchemy engine.
    :returns: a dict, Needs with no more than that, by id of the few that do.
    """
    return {lb_id: _make_needs(found) for lb_id, found in
            needs_repo.get_uncommon(engine).items()}


def _make_needs(found):
    policies = found.get(needs_repo.QOS_POLICY)
    return facts.Needs(
        frozenset(found.get(needs_repo.PORT, ())),
        frozenset(found.get(needs_repo.SUBNET, ())),
        frozenset(found.get(needs_repo.SECURITY_GROUP, ())),
        min(policies) if policies else None,
        frozenset(found.get(needs_repo.SECRET, ())),
        frozenset(found.get(needs_repo.ADDRESS, ())),
        compat.DIRECT in found.get(needs_repo.VNIC_TYPE, ()),
        frozenset(found.get(needs_repo.PROTOCOL, ())),
        frozenset(found.get(needs_repo.AUTHORITY, ())))


def read_settings(conf):
    """Return what octavia.conf has that matters.

    :param conf: a parsed oslo.config object.
    :returns: Settings.
    """
    worker = conf.controller_worker
    return facts.Settings(
        worker.volume_driver != compat.NO_VOLUMES,
        conf.nova.enable_anti_affinity and
        conf.nova.anti_affinity_policy == compat.HARD_ANTI_AFFINITY,
        max(1, len(worker.amp_boot_network_list)),
        worker.compute_driver == compat_compute.NOVA_DRIVER,
        conf.nova.availability_zone or None, worker.amp_flavor_id or None,
        conf[image_conf.GROUP].rollout_parallel)


class NetworkReader:
    """Asks Neutron what there is of what is needed.

    :param conf: the oslo.config object of the connection.
    :param connection: see mgmt_network.cloud.connect().
    """

    def __init__(self, conf, connection):
        self._conf = conf
        self._connection = connection

    def read(self, all_needs):
        """Ask for all of them at once.

        :param all_needs: an iterable of Needs.
        :returns: a Network.
        :raises CloudUnavailable: if there is no answer, or not a proper one.
        :raises CloudRefused: if the answer is no.
        """
        needs = list(all_needs)
        return facts.Network(
            frozenset(self._get('ports', 'the ports of VIPs', _union(
                n.port_ids for n in needs))),
            {subnet_id: subnet.get('network_id') for subnet_id, subnet in
             self._get('subnets', 'the subnets of VIPs and members', _union(
                 n.subnet_ids for n in needs), 'network_id').items()},
            frozenset(self._get(
                'security-groups', 'the security groups of VIPs', _union(
                    n.security_group_ids for n in needs))),
            self._get_policies({n.qos_policy_id for n in needs} - {None}),
            self._get_ports_left())

    def _get_policies(self, ids):
        try:
            return frozenset(self._get('qos/policies',
                                       'the QoS policies of VIPs', ids))
        except exceptions.CloudRefused as e:
            if _is_not_found(e):
                # Neutron runs without them.
                return None
            raise

    def _get_ports_left(self):
        """Return how many ports the project of the credentials may get."""
        try:
            with cloud.reported(self._conf, 'read the quota of ports'):
                project_id = self._connection.current_project_id
                if project_id is None:
                    # Without Keystone there are no projects.
                    return None
                ports = self._ask(
                    f'/quotas/{project_id}/details.json')['quota']['port']
                left = ports['limit'] - ports['used'] - ports.get(
                    'reserved', 0)
                return None if ports['limit'] < 0 else max(0, left)
        except exceptions.CloudRefused as e:
            if _is_not_found(e):
                # An extension, and one that not every Neutron has.
                return None
            raise

    def _get(self, resource, title, ids, *fields):
        """Return those of some ids that there are, {id: dict}."""
        found: dict = {}
        ids = sorted(ids)
        for n in range(0, len(ids), _AT_ONCE):
            left = set(ids[n:n + _AT_ONCE])
            # An answer may have fewer than there are: pagination_max_limit.
            while left:
                with cloud.reported(self._conf, f'read {title}'):
                    items = self._ask(
                        f'/{resource}', id=sorted(left),
                        fields=['id', *fields])[_plural(resource)]
                    new = {item['id']: item for item in items
                           if item['id'] in left}
                found |= new
                left -= new.keys()
                if not new:
                    break
        return found

    def _ask(self, path, **parameters):
        response = self._connection.network.get(path, params=parameters)
        sdk_exc.raise_from_response(response)
        return response.json()


def _is_not_found(error):
    return isinstance(error.__cause__, sdk_exc.NotFoundException)


def _plural(resource):
    return resource.rpartition('/')[2].replace('-', '_')


def _union(sets):
    return frozenset().union(*sets)

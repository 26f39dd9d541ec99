# SPDX-License-Identifier: Apache-2.0

"""Provider ``amphora_cluster``, which octavia-api loads.

It accepts requests as Octavia's own provider ``amphora`` does, but casts
create, delete and failover of load balancers to the workers that serve
clusters.

octavia-api writes the topology of a load balancer itself, from
``[controller_worker] loadbalancer_topology``, in a transaction that no driver
sees. So the worker that takes CREATE first writes ACTIVE_ACTIVE there.
"""

import contextlib

from oslo_log import log as logging

from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.cluster.api import topics
from octavia_hmsync.cluster.api import vip_network
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution.ovs import floating_ips
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.rules import flavor as flavors
from octavia_hmsync.cluster.rules import places
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync import compat
from octavia_hmsync.compat import provider
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import opts as groups

LOG = logging.getLogger(__name__)

NAME = 'amphora_cluster'
# Protocols that OVN distributes beside those on TCP.
_OF_OVN = ('UDP',)

_NOT_SET_UP = ('Clusters of amphorae are not set up completely in this cloud. '
               'Ask its operator, who finds the reason in the log of '
               'octavia-api.')


def _refuse(user, operator=None):
    return provider.UnsupportedOptionError(
        user_fault_string=user, operator_fault_string=operator or user)


@contextlib.contextmanager
def _refusing():
    """Turn errors of a request into those of octavia-api.

    Errors of a service that does not answer pass: octavia-api makes a status
    500 of them.
    """
    try:
        yield
    except flavors.Invalid as e:
        raise _refuse(e.user, e.operator) from None
    except vip_network.Unsuitable as e:
        raise _refuse(str(e)) from None
    except provider.NOT_FOUND as e:
        raise _refuse(provider.describe(e)) from None


def _check_manager(flavor):
    """Refuse a manager that is gone since the flavor was made, or unknown."""
    name = flavor.get(flavors.MANAGER)
    if name is None:
        return
    names = managers.get_names()
    if name not in names:
        raise _refuse(f'{flavors.MANAGER} is {name}, and must be one of '
                      f'{", ".join(names)}')


class ClusterProviderDriver(provider.AmphoraProviderDriver):
    """The provider; octavia-api makes one for each request."""

    def __init__(self):
        super().__init__()
        self._conf = compat.CONF
        groups.register(self._conf)
        self._cluster_client = provider.make_client(provider.make_target(
            topics.TOPIC, topics.NAMESPACE, topics.VERSION))
        # The port that create_vip_port() has made.
        self._own_port_id = None

    # Load balancers

    def create_vip_port(self, loadbalancer_id, project_id, vip_dictionary,
                        additional_vip_dicts):
        self._check_readiness()
        with _refusing():
            network_driver = provider.load_network_driver()
            vip_network.check_network(network_driver,
                                      vip_dictionary['vip_network_id'])
            if vip_dictionary.get('vip_port_id'):
                vip_network.check_port(network_driver,
                                       vip_dictionary['vip_port_id'])
        try:
            vip, additional_vips = super().create_vip_port(
                loadbalancer_id, project_id, vip_dictionary,
                additional_vip_dicts)
        except provider.DriverError as e:
            reason = provider.find_refusal(e)
            if reason is None:
                raise
            raise _refuse(reason, e.operator_fault_string) from None
        if not vip_dictionary.get('vip_port_id'):
            self._own_port_id = vip['vip_port_id']
        return vip, additional_vips

    def loadbalancer_create(self, loadbalancer):
        try:
            self._create(loadbalancer)
        except Exception:
            self._delete_own_port()
            raise

    def _create(self, loadbalancer):
        flavor = self._get(loadbalancer.flavor) or {}
        _check_manager(flavor)
        size = self._resolve(flavor)
        for kind, made in (('listener', loadbalancer.listeners),
                           ('pool', loadbalancer.pools)):
            for one in self._get(made) or ():
                self._check_protocol(kind, one)
        self._check_addresses(loadbalancer, size)
        self._cast(topics.CREATE,
                   load_balancer_id=loadbalancer.loadbalancer_id,
                   flavor={**flavor, **size.to_flavor()},
                   availability_zone=self._get(
                       loadbalancer.availability_zone) or {})

    def loadbalancer_delete(self, loadbalancer, cascade=False):
        self._cast(topics.DELETE,
                   load_balancer_id=loadbalancer.loadbalancer_id,
                   cascade=cascade)

    def loadbalancer_failover(self, loadbalancer_id):
        self._cast(topics.FAILOVER, load_balancer_id=loadbalancer_id)

    # What else is made

    def listener_create(self, listener):
        self._check_protocol('listener', listener)
        super().listener_create(listener)

    def pool_create(self, pool):
        self._check_protocol('pool', pool)
        super().pool_create(pool)

    # Flavors

    def get_supported_flavor_metadata(self):
        return flavors.describe()

    def validate_flavor(self, flavor_dict):
        with _refusing():
            flavors.check(flavor_dict)
            _check_manager(flavor_dict)
            self._resolve(flavor_dict)
            super().validate_flavor(flavors.choose_kept(flavor_dict))

    def get_supported_availability_zone_metadata(self):
        return {**super().get_supported_availability_zone_metadata(),
                places.KEY: places.DESCRIPTION}

    def validate_availability_zone(self, availability_zone_dict):
        with _refusing():
            zones = places.check(availability_zone_dict)
            # Octavia checks each zone of the list as it checks compute_zone.
            rest = {key: value for key, value in
                    availability_zone_dict.items() if key != places.KEY
                    } if zones else availability_zone_dict
            super().validate_availability_zone(rest)
            for zone in zones:
                super().validate_availability_zone(
                    {places.COMPUTE_ZONE: zone})

    # Inside

    def _check_protocol(self, kind, made):
        """Reject protocols that distributors do not support.

        :param made: a listener or a pool, as octavia-api gives it to a driver.
        """
        is_ovn = backends.is_ovn(self._conf)
        protocol = made.protocol
        supported = [*provider.SUPPORTED_PROTOCOLS, *(
            _OF_OVN if is_ovn else ())]
        if protocol not in compat.LVS_PROTOCOLS or protocol in supported:
            return
        reason = (f'{protocol} has not been tried with OVN' if is_ovn else
                  f'distributors of Open vSwitch cannot keep a {protocol} '
                  f'flow at the same amphora')
        raise _refuse(
            f'A cluster of amphorae has no {kind} of protocol {protocol} in '
            f'this cloud: {reason}. It has: {", ".join(supported)}. Provider '
            f'amphora has {protocol}, too.')

    @staticmethod
    def _get(value):
        return None if value == provider.Unset else value

    def _resolve(self, flavor):
        try:
            return sizes.resolve(flavor, readiness.get_defaults(self._conf))
        except sizes.Refused as e:
            if e.user is None:
                raise self._not_set_up(e.operator) from None
            raise _refuse(e.user, e.operator) from None

    def _check_readiness(self):
        problem = readiness.find_misconfiguration(self._conf)
        if problem is None:
            with provider.begin() as session:
                problem = readiness.find_missing_tables(session.connection())
        if problem is not None:
            raise self._not_set_up(problem)

    @staticmethod
    def _not_set_up(problem):
        LOG.error('Load balancers of provider %s cannot be made: %s',
                  NAME, problem)
        # Not NotImplementedError: octavia-api would take it from
        # create_vip_port() as a request to create the port itself.
        return _refuse(_NOT_SET_UP, problem)

    def _check_addresses(self, loadbalancer, size):
        group = self._conf[cluster_conf.GROUP]
        network_driver = provider.load_network_driver()
        # Distributors that controllers boot later take an address, too.
        distributors = min(vip_network.DISTRIBUTORS, len(group.distributors) +
                           group.distributor_instances)
        with _refusing():
            is_ovn = backends.is_ovn(self._conf)
            more = self._get(loadbalancer.additional_vips) or ()
            where = (network_driver, loadbalancer.vip_network_id,
                     [loadbalancer.vip_subnet_id,
                      *(vip['subnet_id'] for vip in more)])
            if not is_ovn:
                vip_network.check_not_distributed(*where)
                if floating_ips.are_distributed(self._conf):
                    vip_network.check_floating_ips(*where)
            else:
                vip_network.check_routers(*where)
                vip_network.check_overlay(network_driver,
                                          loadbalancer.vip_network_id)
                # OVN probes members from an address of its own.
                distributors = 1
            vip_network.check_addresses(
                network_driver, loadbalancer.vip_network_id,
                loadbalancer.vip_subnet_id, size.desired + group.standby,
                distributors)

    def _delete_own_port(self):
        """Delete the VIP's port: octavia-api forgets the load balancer."""
        if self._own_port_id is None:
            return
        port_id, self._own_port_id = self._own_port_id, None
        try:
            provider.load_network_driver().delete_port(port_id)
        except Exception as e:
            LOG.warning('Port %s of a load balancer that was refused could '
                        'not be deleted (%s): delete it, it is not used.',
                        port_id, e)

    def _cast(self, method, **arguments):
        try:
            self._cluster_client.cast({}, method, **arguments)
        except provider.Undeliverable:
            raise self._not_set_up(
                f'no octavia-worker serves clusters. Start octavia-workers '
                f'with octavia-hmsync switched on; none has ever listened '
                f'to {topics.TOPIC}.') from None

# SPDX-License-Identifier: Apache-2.0

"""Whether Octavia still has what replacing amphorae needs.

Each call into Octavia's internals by octavia_hmsync.compat.amphora is listed
here with its arguments. That the name exists is not enough: with a changed
parameter the call would fail after a load balancer is locked.
"""

import dataclasses
import importlib
import inspect
import typing

from octavia.common import constants
from oslo_config import cfg
from stevedore import driver as stevedore_driver

CONF = cfg.CONF

_WORKER = 'octavia.controller.worker.v2'
_REPOSITORIES = 'octavia.db.repositories'


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of something in Octavia.

    :param name: its name there, dotted for a method of a class.
    :param positional: how many positional arguments it gets, self included.
    :param keywords: the names of its keyword arguments.
    """

    module: str
    name: str
    positional: int = 0
    keywords: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f'{self.module}.{self.name}'


# Calls of mode replace.
_REPLACE = (
    Call(f'{_WORKER}.flows.amphora_flows', 'AmphoraFlows'),
    Call(f'{_WORKER}.flows.amphora_flows',
         'AmphoraFlows.get_amphora_for_lb_failover_subflow', 1,
         ('prefix', 'role')),
    Call(f'{_WORKER}.tasks.network_tasks', 'GetVIPSecurityGroupID', 0,
         ('requires', 'provides')),
    Call(f'{_WORKER}.tasks.compute_tasks', 'NovaServerGroupCreate.execute', 2),
    Call(f'{_WORKER}.tasks.database_tasks', 'UpdateLBServerGroupInDB.execute',
         3),
    Call(f'{_WORKER}.tasks.database_tasks', 'CreateVRRPGroupForLB.execute',
         2),
    Call('octavia.api.drivers.utils',
         'db_loadbalancer_to_provider_loadbalancer', 1),
    Call('octavia.amphorae.drivers.keepalived.jinja.jinja_cfg',
         'KeepalivedJinjaTemplater'),
    Call('octavia.amphorae.drivers.keepalived.jinja.jinja_cfg',
         'KeepalivedJinjaTemplater.build_keepalived_config', 4),
    Call('octavia.network.data_models', 'AmphoraNetworkConfig.to_dict', 1,
         ('recurse',)),
    Call(_REPOSITORIES, 'FlavorRepository.get_flavor_metadata_dict', 3),
    Call(_REPOSITORIES,
         'AvailabilityZoneRepository.get_availability_zone_metadata_dict', 3),
    Call(_REPOSITORIES, 'AmphoraMemberPortRepository.get_port_ids', 3),
    Call(_REPOSITORIES, 'AmphoraMemberPortRepository.delete', 2,
         ('port_id',)),
)
# Calls of both modes.
_BOTH = (
    Call('octavia.db.api', 'get_session'),
    Call(_REPOSITORIES, 'LoadBalancerRepository.get', 2, ('id',)),
)
# Calls of mode failover.
_FAILOVER = (
    Call('octavia.common.rpc', 'get_transport_url'),
    Call('octavia.common.rpc', 'create_transport', 1),
    Call('octavia.controller.queue.v2.endpoints',
         'Endpoints.failover_amphora', 2, ('amphora_id',)),
)

_REST = 'octavia.amphorae.drivers.haproxy.rest_api_driver'
# Calls that find out, with Octavia's driver, what to configure.
_LISTENERS = (
    Call(_REST, 'HaproxyAmphoraLoadBalancerDriver'),
    Call(_REST, 'HaproxyAmphoraLoadBalancerDriver.update_amphora_listeners',
         4),
    Call(_REST, 'AmphoraAPIClient1_0.request', 4,
         ('timeout_dict', 'retry_404', 'raise_retry_exception')),
    Call('octavia.common.tls_utils.cert_parser', 'load_certificates_data',
         2),
)
# Calls of the amphora driver that plan the requests to members.
_MEMBERS = (
    *(Call(_REST, f'HaproxyAmphoraLoadBalancerDriver.{name}', count)
      for name, count in (
          ('update', 2), ('delete', 2),
          ('start', 4), ('reload', 4), ('post_network_plug', 4),
          ('upload_cert_amp', 3), ('update_amphora_agent_config', 4),
          ('update_vrrp_conf', 5))),
    Call('octavia.common.tls_utils.cert_parser', 'build_pem', 1),
)

# Calls of octavia_hmsync.compat.cluster.
_FLOWS = (
    Call(f'{_WORKER}.controller_worker', 'ControllerWorker'),
    Call(f'{_WORKER}.controller_worker', 'ControllerWorker.run_flow', 2,
         ('store',)),
    Call(f'{_WORKER}.controller_worker', 'ControllerWorker.failover_amphora',
         2),
    Call(f'{_WORKER}.flows.amphora_flows',
         'AmphoraFlows.get_amphora_for_lb_subflow', 1, ('prefix', 'role')),
    Call(f'{_WORKER}.flows.flow_utils',
         'get_cascade_delete_load_balancer_flow', 3),
    Call(f'{_WORKER}.flows.flow_utils', 'get_listeners_on_lb', 2),
    Call(f'{_WORKER}.flows.flow_utils', 'get_pools_on_lb', 2),
    *(Call(f'{_WORKER}.tasks.network_tasks', f'{name}.execute', count)
      for name, count in (
          ('AllocateVIP', 2), ('UpdateVIPSecurityGroup', 2),
          ('GetVIPSecurityGroupID', 2), ('CreateVIPBasePort', 5),
          ('CalculateAmphoraDelta', 4), ('HandleNetworkDelta', 3),
          ('GetAmphoraNetworkConfigsByID', 3))),
    *(Call(f'{_WORKER}.tasks.database_tasks', f'{name}.execute', count)
      for name, count in (
          ('ReloadLoadBalancer', 2), ('UpdateVIPAfterAllocation', 3),
          ('UpdateAdditionalVIPsAfterAllocation', 3),
          ('MarkHealthMonitorsOnlineInDB', 2), ('MarkLBActiveInDB', 2))),
    Call(f'{_WORKER}.tasks.compute_tasks', 'AttachPort.execute', 3),
    *(Call(f'{_WORKER}.tasks.amphora_driver_tasks', f'{name}.execute', 4)
      for name in ('AmphoraPostVIPPlug', 'AmphoraePostNetworkPlug')),
    Call(_REPOSITORIES, 'AmphoraRepository.get', 2, ('id',)),
    Call(_REPOSITORIES, 'AmphoraRepository.create', 2,
         ('id', 'status', 'cert_busy')),
    Call(_REPOSITORIES, 'AmphoraRepository.update', 3,
         ('load_balancer_id',)),
    Call(_REPOSITORIES, 'AmphoraHealthRepository.replace', 3,
         ('last_update', 'busy')),
    Call(_REPOSITORIES, 'LoadBalancerRepository.update', 3, ('topology',)),
    Call('octavia.common.rpc', 'get_server', 2, ('access_policy',)),
)

_CONSTANTS_OF_REPLACE = ('AMP_BASE_PORT_PREFIX', 'CREATE_AMPHORA_INDB',
                         'LB_CREATE_NORMAL_PRIORITY')
_CONSTANTS_OF_FAILOVER = ('RPC_NAMESPACE_CONTROLLER_AGENT',
                          'TOPIC_AMPHORA_V2')

# Methods of drivers, by namespace and by the option that names the driver.
_DRIVERS = (
    ('octavia.network.drivers', 'network_driver', (
        ('delete_port', 2), ('get_network', 2), ('get_network_configs', 3),
        ('get_port', 2), ('get_port_by_name', 2), ('get_subnet', 2),
        ('update_vip', 2))),
    ('octavia.compute.drivers', 'compute_driver', (('delete', 2),)),
)


def find_of_replace():
    """Check the calls of mode replace; return problems, in words."""
    return [*_find_constants(_CONSTANTS_OF_REPLACE),
            *_find(_REPLACE + _BOTH + _LISTENERS), *_find_in_drivers()]


def find_of_failover():
    """Check the calls of mode failover."""
    return [*_find_constants(_CONSTANTS_OF_FAILOVER),
            *_find(_FAILOVER + _BOTH)]


def find_of_members():
    """Check the calls that build and configure members of clusters."""
    return _find(_LISTENERS + _MEMBERS + _FLOWS)


def _find_constants(names):
    return [f'octavia.common.constants.{name} is gone' for name in names
            if not hasattr(constants, name)]


def _find(calls):
    found = []
    for call in calls:
        try:
            target = importlib.import_module(call.module)
            for name in call.name.split('.'):
                target = getattr(target, name)
        except (ImportError, AttributeError):
            found.append(f'{call} is gone')
            continue
        found += _compare(call, target)
    return found


def _compare(call, target):
    """Return a list of what is wrong with a call."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return [f'{call} is something else']
    try:
        signature.bind(*[None] * call.positional,
                       **dict.fromkeys(call.keywords))
    except TypeError as e:
        # As in: missing a required argument: 'flavor'.
        return [f'{call} takes other arguments ({e})']
    return []


def _find_in_drivers():
    found = []
    for namespace, option, methods in _DRIVERS:
        name = CONF.controller_worker[option]
        try:
            driver: typing.Any = stevedore_driver.DriverManager(
                namespace=namespace, name=name, invoke_on_load=False).driver
        except Exception as e:
            # A third-party driver may raise anything when imported.
            found.append(f'{option} {name} cannot be loaded '
                         f'({type(e).__name__})')
            continue
        for method, positional in methods:
            call = Call(f'{option} {name}', method, positional)
            target = getattr(driver, method, None)
            found += ([f'{call} is gone'] if target is None
                      else _compare(call, target))
    return found

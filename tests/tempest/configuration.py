# SPDX-License-Identifier: Apache-2.0

"""tempest.conf, for a cloud of clouds.py."""

import os

from tests.cloud import octavia_conf
from tests.tempest import clouds

# What octavia-api says that the driver's flavors may have.
_CAPABILITY = {
    'amphora_cluster': {
        'cluster_desired_size': 'How many amphorae the cluster has.'},
    'amphora': {
        'loadbalancer_topology':
        'The load balancer topology. One of: SINGLE - One amphora per load '
        'balancer. ACTIVE_STANDBY - Two amphora per load balancer.'}}


def _join(values):
    return ','.join(f'{key}:{value}' for key, value in values.items())


def write(path, cloud, provider, traffic, log_path):
    """Write a tempest.conf.

    :param cloud: a clouds.Cluster or clouds.Noop.
    :param provider: of the load balancers.
    :param traffic: whether the tests have machines.
    :param log_path: where tempest says what it does.
    """
    directory = os.path.dirname(path)
    octavia_conf.write(path, {
        'DEFAULT': {'debug': True, 'use_stderr': False, 'log_file': log_path},
        'oslo_concurrency': {'lock_path': directory},
        'auth': {'use_dynamic_credentials': True,
                 'admin_username': clouds.ADMIN,
                 'admin_password': cloud.keystone.password,
                 'admin_project_name': clouds.ADMIN,
                 'admin_domain_name': 'Default',
                 'create_isolated_networks': False},
        'identity': {'uri_v3': cloud.keystone.url, 'auth_version': 'v3',
                     'region': clouds.REGION, 'v3_endpoint_type': 'public'},
        'identity-feature-enabled': {'api_v3': True},
        'network': {'project_networks_reachable': True,
                    'region': clouds.REGION, 'public_network_id':
                    cloud.external_network.id if cloud.is_real else None},
        'network-feature-enabled': {'port_security': True},
        'service_available': {
            'neutron': cloud.is_real, 'nova': True, 'glance': True,
            'cinder': False, 'swift': False, 'horizon': False,
            'load_balancer': True, 'barbican': False},
        'validation': {'run_validation': traffic,
                       'connect_method': 'floating'},
        'compute': {'flavor_ref': '1', 'image_ref': '1'},
        'load_balancer': {
            'region': clouds.REGION, 'provider': provider,
            'test_with_noop': not cloud.is_real, 'test_with_ipv6': not traffic,
            'enabled_provider_drivers': _join(clouds.PROVIDERS),
            'loadbalancer_topology': 'SINGLE', 'enable_security_groups': True,
            'expected_flavor_capability': _join(_CAPABILITY[provider]),
            # Of traffic it is the time-out of a request, too.
            'check_interval': 1, 'check_timeout': 180,
            'build_interval': 2 if traffic else 1, 'build_timeout': 180,
            'lb_build_interval': 1, 'lb_build_timeout': 300,
            'log_user_roles': False, **_get_roles(cloud)},
        'loadbalancer-feature-enabled': {
            # What a cluster refuses with 501 is no failure.
            'not_implemented_is_error': provider != 'amphora_cluster',
            'log_offload_enabled': False, 'spare_pool_enabled': False}})


def _get_roles(cloud):
    """Who may do what is octavia-api's alone: it is asked once."""
    if cloud.is_real:
        return {'RBAC_test_type': 'none', 'admin_role': 'admin',
                'member_role': 'member', 'observer_role': 'reader',
                'global_observer_role': 'reader'}
    return {'RBAC_test_type': 'keystone_default_roles',
            'availability_zone': 'nova', 'availability_zone2': 'nova2',
            'availability_zone3': 'nova3'}

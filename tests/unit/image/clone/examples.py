# SPDX-License-Identifier: Apache-2.0

"""A rich load balancer for the tests of clones."""

import copy

MEMBERS = [
    {'address': '10.1.0.5', 'protocol_port': 80, 'weight': 5},
    {'address': '10.1.0.6', 'protocol_port': 80, 'backup': True},
    {'address': '10.1.0.7', 'protocol_port': 80, 'admin_state_up': False,
     'tags': ['blue']}]
RICH = {
    'name': 'web', 'description': 'all of it', 'provider': 'amphora',
    'flavor_id': '11111111-0000-0000-0000-000000000000',
    'availability_zone': 'az1', 'vip_subnet_id': 'subnet-1',
    'vip_network_id': 'net-1', 'vip_qos_policy_id': 'qos-1',
    'tags': ['shop'], 'additional_vips': [{'subnet_id': 'subnet-2'}],
    'pools': [
        {'name': 'blue', 'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN',
         'session_persistence': {'type': 'APP_COOKIE', 'cookie_name': 'x',
                                 'persistence_timeout': None},
         'members': MEMBERS, 'healthmonitor': {
             'name': 'hm', 'type': 'HTTP', 'delay': 5, 'timeout': 3,
             'max_retries': 3, 'max_retries_down': 2, 'url_path': '/up',
             'http_method': 'GET', 'expected_codes': '200',
             'http_version': 1.1, 'domain_name': 'a.example'}},
        {'name': 'green', 'protocol': 'HTTP',
         'lb_algorithm': 'LEAST_CONNECTIONS', 'members': MEMBERS[:1]},
        {'name': 'spare', 'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP',
         'members': []}],
    'listeners': [
        {'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
         'connection_limit': 500, 'timeout_client_data': 1000,
         'insert_headers': {'X-Forwarded-For': 'true'},
         'allowed_cidrs': ['10.0.0.0/8', '192.0.2.0/24'],
         'default_pool': {'name': 'blue'}, 'l7policies': [
             {'name': 'p2', 'action': 'REDIRECT_TO_POOL', 'position': 2,
              'redirect_pool': {'name': 'green'}, 'rules': [
                  {'type': 'PATH', 'compare_type': 'STARTS_WITH',
                   'value': '/green'},
                  {'type': 'HEADER', 'compare_type': 'EQUAL_TO',
                   'key': 'X-A', 'value': 'b', 'invert': True}]},
             {'name': 'p1', 'action': 'REDIRECT_TO_URL', 'position': 1,
              'redirect_url': 'https://a.example/',
              'redirect_http_code': 301, 'rules': []}]},
        {'name': 'https', 'protocol': 'TERMINATED_HTTPS',
         'protocol_port': 443, 'default_tls_container_ref': 'ref-1',
         'sni_container_refs': ['ref-3', 'ref-2'],
         'client_ca_tls_container_ref': 'ref-4',
         'client_crl_container_ref': 'ref-5',
         'client_authentication': 'MANDATORY', 'tls_versions': ['TLSv1.3'],
         'tls_ciphers': 'A:B', 'alpn_protocols': ['http/1.1'],
         'hsts_max_age': 60,
         'admin_state_up': False, 'default_pool': {'name': 'blue'}}],
}


def make(cloud, **values):
    """Make it in a fake_cloud.FakeCloud; returns it, ACTIVE.

    Its pools "green" and "spare" have one name, which the API lets them have
    after they were made.
    """
    made = cloud.create({**copy.deepcopy(RICH), **values})
    for pool in cloud.pools.values():
        if pool['name'] == 'spare' and pool['_lb'] == made['id']:
            pool['name'] = 'green'
    cloud.settle()
    return made

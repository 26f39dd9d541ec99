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

"""What an agent does at each request, as far as a controller makes it."""

import ipaddress
import json
import re

from tests.fleet import configuration

CONFIG = '/1.0/config'


def _discover(amphora, _body):
    return 200, {'api_version': '1.0'}


def _configure(amphora, body):
    try:
        amphora.take(configuration.parse(body))
    except ValueError as e:
        return 500, {'message': 'Unable to update amphora-agent '
                                'configuration.', 'details': str(e)}
    return 202, {'message': 'OK'}


def _get_info(amphora, _body):
    return 200, {'api_version': '1.0', 'hostname': amphora.id,
                 'active': True, 'listeners':
                     [amphora.listener_id] if amphora.listener_id else []}


def _list_listeners(amphora, _body):
    return 200, [{'status': 'ACTIVE', 'uuid': amphora.listener_id,
                  'type': 'http'}] if amphora.listener_id else []


def _find_interface(amphora, _body, address):
    try:
        address = ipaddress.ip_address(address)
    except ValueError:
        return 400, {'message': 'Invalid IP address'}
    if address in amphora.addresses:
        return 200, {'message': 'OK', 'interface': 'eth1'}
    return 404, {'message': 'Error interface not found for IP address'}


def _plug_vip(amphora, body, vip):
    """Take the interface that has just been attached; one of a SINGLE."""
    told = json.loads(body)
    amphora.mac = told['mac_address']
    amphora.addresses = _addresses({**told, 'vip': vip})
    return 202, {'message': 'OK'}


def _plug_network(amphora, body):
    """Make the addresses of the VIP's interface those that it is told."""
    told = json.loads(body)
    try:
        for fixed_ip in told['fixed_ips']:
            ipaddress.ip_address(fixed_ip['ip_address'])
    except ValueError:
        return 400, {'message': 'Invalid network port'}
    if told['mac_address'] != amphora.mac:
        return 404, {'details': 'No suitable network interface found'}
    amphora.addresses = _addresses(told['vip_net_info'])
    return 202, {'message': 'OK'}


def _addresses(told):
    return frozenset(map(ipaddress.ip_address, [
        told['vip'], told['vrrp_ip'],
        *(each['ip_address'] for each in told.get('additional_vips', ()))]))


def _start(amphora, _body, _load_balancer_id):
    """None is served by a haproxy of which its agent knows."""
    return 404, {'message': 'Loadbalancer Not Found'}


ROUTES = [(re.compile(path), method, function) for path, method, function in (
    ('/', 'GET', _discover), (CONFIG, 'PUT', _configure),
    ('/1.0/info', 'GET', _get_info),
    ('/1.0/listeners', 'GET', _list_listeners),
    ('/1.0/interface/([^/]+)', 'GET', _find_interface),
    ('/1.0/plug/vip/([^/]+)', 'POST', _plug_vip),
    ('/1.0/plug/network', 'POST', _plug_network),
    ('/1.0/loadbalancer/([^/]+)/start', 'PUT', _start))]


def act(amphora, method, path, body):
    """Do what a request asks for.

    :returns: status, and what the answer has; None for an error page.
    """
    for route, expected, function in ROUTES:
        found = route.fullmatch(path)
        if found and method != expected:
            return 405, None
        if found:
            return function(amphora, body, *found.groups())
    return 404, None

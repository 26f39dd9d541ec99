# SPDX-License-Identifier: Apache-2.0

"""What an agent does at each request, as far as a controller makes it."""

import hashlib
import ipaddress
import json
import re

from tests.fleet import configuration

CONFIG = '/1.0/config'
_CERTIFICATE = '/1.0/loadbalancer/([^/]+)/certificates/([^/]+)'
# Of Debian 12, as its real agent tells it.
HAPROXY_VERSION = '2.6.12-1+deb12u4'


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
                 'haproxy_version': HAPROXY_VERSION, 'active': True,
                 'listeners': _get_listeners(amphora)}


def _get_details(amphora, _body):
    return 200, {'hostname': amphora.id, 'haproxy_version': HAPROXY_VERSION,
                 'haproxy_count': len(_get_configurations(amphora)),
                 'memory': {}, 'active_tuned_profiles': '', 'cpu_count': 1}


def _get_configurations(amphora):
    return [text for path, text in amphora.files.items()
            if path.endswith('/haproxy')]


def _get_listeners(amphora):
    served = [listener_id for text in _get_configurations(amphora)
              for listener_id in re.findall('^frontend (.+)$', text.decode(),
                                            re.MULTILINE)]
    return ([amphora.listener_id] if amphora.listener_id else []) + served


def _list_listeners(amphora, _body):
    return 200, [{'status': 'ERROR' if listener_id in amphora.dead_listeners
                  else 'ACTIVE', 'uuid': listener_id, 'type': 'http'}
                 for listener_id in _get_listeners(amphora)] + [
        {'status': 'ACTIVE' if b'virtual_server' in text else 'OFFLINE',
         'uuid': path.partition('/')[0], 'type': 'UDP'}
        for path, text in amphora.files.items()
        if path.endswith('/udp_listener')]


def _find_interface(amphora, _body, address):
    try:
        address = ipaddress.ip_address(address)
    except ValueError:
        return 400, {'message': 'Invalid IP address'}
    if address in amphora.addresses:
        return 200, {'message': 'OK', 'interface': 'eth1'}
    if str(address) in amphora.files.get('lo', ()):
        return 200, {'message': 'OK', 'interface': 'lo'}
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
    amphora.addresses = _addresses(told['vip_net_info'],
                                   *told['fixed_ips'])
    return 202, {'message': 'OK'}


def _addresses(told, *fixed_ips):
    return frozenset(map(ipaddress.ip_address, [
        told['vip'], told['vrrp_ip'],
        *(each['ip_address'] for each in (
            *told.get('additional_vips', ()), *fixed_ips))]))


def _serve(amphora, _body, load_balancer_id):
    """Start, stop or reload a haproxy, or LVS; there is none."""
    if {f'{load_balancer_id}/haproxy',
            f'{load_balancer_id}/udp_listener'} & set(amphora.files):
        return 202, {'message': 'OK'}
    return 404, {'message': 'Loadbalancer Not Found'}


def _upload_haproxy(amphora, body, _amphora_id, load_balancer_id):
    amphora.files[f'{load_balancer_id}/haproxy'] = body
    return 202, {'message': 'OK'}


def _get_haproxy(amphora, _body, load_balancer_id):
    found = amphora.files.get(f'{load_balancer_id}/haproxy')
    if found is None:
        return 404, {'message': 'Loadbalancer Not Found'}
    return 200, found


def _upload_datagrams(amphora, body, _amphora_id, listener_id):
    amphora.files[f'{listener_id}/udp_listener'] = body
    return 200, {'message': 'OK'}


def _get_datagrams(amphora, _body, listener_id):
    found = amphora.files.get(f'{listener_id}/udp_listener')
    if found is None:
        return 404, {'message': 'UDP Listener Not Found'}
    return 200, found


def _delete_haproxy(amphora, _body, load_balancer_id):
    for path in list(amphora.files):
        if path.startswith(f'{load_balancer_id}/'):
            del amphora.files[path]
    return 200, {'message': 'OK'}


def _get_certificate(amphora, _body, *path):
    if '/'.join(path) not in amphora.files:
        return 404, {'message': 'Certificate Not Found'}
    return 200, {'md5sum': hashlib.md5(
        amphora.files['/'.join(path)], usedforsecurity=False).hexdigest()}


def _upload_certificate(amphora, body, *path):
    amphora.files['/'.join(path)] = body
    return 200, {'message': 'OK'}


def _delete_certificate(amphora, _body, *path):
    if amphora.files.pop('/'.join(path), None) is None:
        return 404, {'message': 'Certificate Not Found'}
    return 200, {'message': 'OK'}


def _upload_keepalived(amphora, body):
    amphora.files['keepalived'] = body
    return 200, {'message': 'OK'}


def _start_keepalived(amphora, _body):
    amphora.files['lo'] = re.findall(
        r'(\S+)/\d+ dev lo', amphora.files['keepalived'].decode())
    return 202, {'message': 'OK'}


ROUTES = [(re.compile(path), method, function) for path, method, function in (
    ('/', 'GET', _discover), (CONFIG, 'PUT', _configure),
    ('/1.0/info', 'GET', _get_info),
    ('/1.0/listeners', 'GET', _list_listeners),
    ('/1.0/interface/([^/]+)', 'GET', _find_interface),
    ('/1.0/plug/vip/([^/]+)', 'POST', _plug_vip),
    ('/1.0/plug/network', 'POST', _plug_network),
    ('/1.0/details', 'GET', _get_details),
    ('/1.0/loadbalancer/([^/]+)/(?:start|stop|reload)', 'PUT', _serve),
    ('/1.0/loadbalancer/([^/]+)/([^/]+)/haproxy', 'PUT', _upload_haproxy),
    ('/1.0/loadbalancer/([^/]+)/haproxy', 'GET', _get_haproxy),
    ('/1.0/listeners/([^/]+)/([^/]+)/udp_listener', 'PUT',
     _upload_datagrams),
    ('/1.0/listeners/([^/]+)/udp_listener', 'GET', _get_datagrams),
    ('/1.0/listeners/([^/]+)', 'DELETE', _delete_haproxy),
    (_CERTIFICATE, 'GET', _get_certificate),
    (_CERTIFICATE, 'PUT', _upload_certificate),
    (_CERTIFICATE, 'DELETE', _delete_certificate),
    ('/1.0/vrrp/upload', 'PUT', _upload_keepalived),
    ('/1.0/vrrp/start', 'PUT', _start_keepalived))]


def act(amphora, method, path, body):
    """Do what a request asks for.

    :returns: status, and what the answer has; None for an error page.
    """
    status = 404
    for route, expected, function in ROUTES:
        found = route.fullmatch(path)
        if found and method == expected:
            return function(amphora, body, *found.groups())
        if found:
            status = 405
    return status, None


def encode(content):
    """Return the type of an answer, and its body.

    :param content: what it has; bytes are a file, all else is JSON.
    """
    if isinstance(content, bytes):
        return 'text/plain; charset=UTF-8', content
    return 'application/json', json.dumps(
        content, separators=(',', ':')).encode()

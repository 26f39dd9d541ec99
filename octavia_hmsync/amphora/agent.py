# SPDX-License-Identifier: Apache-2.0

"""The requests to amphora agents for replacements and clusters.

A SINGLE amphora holds the VIP from the moment its agent plugs it. A new
amphora that must wait is booted as one of a pair: its agent then leaves the
VIP to keepalived, which it lacks. take_vip() and release_vip() plug an
interface again: the agent then sets its addresses to exactly the given ones
("re-vip-plug", Plug.plug_network of the agent).
"""

import asyncio
import dataclasses
import json

from octavia_hmsync import exceptions

# Bytes; a load balancer may have hundreds of listeners.
_KEPT = 60000
# Bytes; hundreds of listeners and thousands of members are a megabyte.
_KEPT_OF_HAPROXY = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Subnet:
    """A subnet in the agent's API; host_routes: (destination, nexthop)."""

    cidr: str
    gateway: str | None
    host_routes: tuple = ()

    def describe(self):
        """Return the fields of the agent's API."""
        return {'subnet_cidr': self.cidr, 'gateway': self.gateway,
                'host_routes': [
                    {'destination': destination, 'nexthop': nexthop}
                    for destination, nexthop in self.host_routes]}


@dataclasses.dataclass(frozen=True)
class VipInterface:
    """The interface of an amphora that carries its VIPs.

    :param vrrp_ip: its own address, beside the VIPs of the load balancer.
    :param vips: (address, Subnet) pairs, the load balancer's own VIP first.
    :param fixed_ips: (address, Subnet) pairs of all addresses of its port,
                      vrrp_ip included. Members may be in any of these subnets.
    """

    mac: str
    vrrp_ip: str
    mtu: int
    vips: tuple
    fixed_ips: tuple


def _is_listener(found):
    return isinstance(found, dict) and all(
        isinstance(found.get(name), str) for name in ('uuid', 'status'))


class Agent:
    """The agent of one amphora.

    A method raises AgentUnreachable or AgentRefused if the agent fails, and
    may have done then what it was asked for.

    :param timeout: seconds for each request; [hmsync] upload_timeout if None.
    :param silence: seconds until something must have come from there, too.
    """

    def __init__(self, client, amphora_id, lb_network_ip, timeout=None,
                 silence=None):
        self._client = client
        self._timeout = timeout
        self._silence = silence
        self.amphora_id = amphora_id
        self.lb_network_ip = lb_network_ip

    def _ask(self, method, path, body='', content_type='application/json',
             allowed=(), kept=_KEPT):
        status, text = asyncio.run(self._client.ask(
            self.amphora_id, self.lb_network_ip, method, path, body,
            content_type, timeout=self._timeout, kept=kept,
            silence=self._silence))
        if 200 <= status < 300 or status in allowed:
            return status, text
        # Not the agent's own text: it may hold control characters for a
        # terminal, and may repeat a secret.
        raise exceptions.AgentRefused(
            f'The agent of amphora {self.amphora_id} at {self.lb_network_ip} '
            f'answered {status} to {method} {path}. See '
            f'/var/log/amphora-agent.log in the amphora')

    def _ask_json(self, path):
        _status, text = self._ask('GET', path)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            # RecursionError: too many brackets, which is no answer either.
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} answered no JSON to GET {path}. See '
                f'who answers there') from None

    def get_haproxy(self, load_balancer_id):
        """Return a load balancer's haproxy configuration, or None."""
        return self._get_configuration(
            f'loadbalancer/{load_balancer_id}/haproxy')

    def get_lvs(self, listener_id):
        """Return the configuration of LVS for a listener, as get_haproxy()."""
        return self._get_configuration(
            f'listeners/{listener_id}/udp_listener')

    def _get_configuration(self, path):
        status, text = self._ask('GET', path, allowed=(404,),
                                 kept=_KEPT_OF_HAPROXY)
        if '\ufffd' in text:
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} answered no text to GET '
                f'{path.rpartition("/")[2]}. See who answers there')
        return None if status == 404 else text

    def get_file_md5(self, path):
        """Return the MD5 of a file that goes beside the certificates.

        :param path: below the version of the API.
        :returns: the value from its agent, unverified; None if there is no
                  such file.
        """
        status, text = self._ask('GET', path, allowed=(404,))
        if status == 404:
            return None
        try:
            return str(json.loads(text)['md5sum'])
        except (ValueError, KeyError, TypeError):
            return ''

    def upload_file(self, path, content):
        """Upload a file, perhaps a secret, that goes beside certificates."""
        self._ask('PUT', path, content, 'application/octet-stream')

    def reload_haproxy(self, load_balancer_id):
        """Reload haproxy; the old process keeps its connections."""
        self._ask('PUT', f'loadbalancer/{load_balancer_id}/reload')

    def get_listeners(self):
        """Return {id: status} of the listeners that it was given."""
        found = self._ask_json('listeners')
        if not (isinstance(found, list) and all(map(_is_listener, found))):
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} lists no listeners. See who answers '
                f'there')
        return {each['uuid']: each['status'] for each in found}

    def get_interface(self, address):
        """Return the name of the interface that has an address, or None."""
        path = f'interface/{address}'
        status, text = self._ask('GET', path, allowed=(404,))
        if status == 404:
            return None
        try:
            return str(json.loads(text)['interface'])
        except (ValueError, KeyError, TypeError):
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} names no interface for {address}. See '
                f'who answers there') from None

    def count_haproxies(self):
        """Return how many haproxies run, one for each load balancer."""
        try:
            return int(self._ask_json('details')['haproxy_count'])
        except (KeyError, TypeError, ValueError):
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} gives no details of itself. See who '
                f'answers there') from None

    def holds(self, address):
        """Tell whether an address is on one of its interfaces."""
        return self.get_interface(address) is not None

    def configure(self, configuration):
        """Replace the agent's own configuration, which holds a secret."""
        self._ask('PUT', 'config', configuration, 'application/octet-stream')

    def take_vip(self, interface):
        """Add the VIPs to its interface; it must be SINGLE by now.

        An interface that is not plugged yet becomes one for members, without
        the VIPs.
        """
        self._plug(interface, interface.vips)

    def release_vip(self, interface):
        """Remove the VIPs from its interface; their connections end.

        Its own addresses stay, and it answers ARP only for these.
        """
        self._plug(interface, ((interface.vrrp_ip, interface.vips[0][1]),))

    def _plug(self, interface, vips):
        (vip, subnet), *additional = vips
        described = subnet.describe()
        self._ask('POST', 'plug/network', json.dumps({
            'mac_address': interface.mac, 'mtu': interface.mtu,
            'is_sriov': False,
            # The agent deletes all addresses that are not listed here.
            'fixed_ips': [{'ip_address': address, **other.describe()}
                          for address, other in interface.fixed_ips],
            'vip_net_info': {
                'vip': vip, 'vrrp_ip': interface.vrrp_ip,
                'mac_address': interface.mac, 'mtu': interface.mtu,
                'is_sriov': False, **described, 'additional_vips': [
                    {'ip_address': address, **other.describe()}
                    for address, other in additional]}}))

    def upload_keepalived(self, configuration):
        """Upload a keepalived configuration, which takes effect later."""
        self._ask('PUT', 'vrrp/upload', configuration,
                  'application/octet-stream')

    def start_keepalived(self):
        """Start keepalived with the configuration that it has."""
        self._ask('PUT', 'vrrp/start')

    def reload_keepalived(self):
        """Reload the configuration of a running keepalived."""
        self._ask('PUT', 'vrrp/reload')

    def stop_keepalived(self):
        """Stop keepalived, which gives up the VIPs first."""
        self._ask('PUT', 'vrrp/stop')

    def advertise(self, load_balancer_id):
        """Announce the VIPs to the neighbours by gratuitous ARP.

        The agent does so when asked to start haproxy; a running haproxy is
        not touched. Only for a SINGLE amphora that holds the VIPs.
        """
        self._ask('PUT', f'loadbalancer/{load_balancer_id}/start')

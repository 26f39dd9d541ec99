# SPDX-License-Identifier: Apache-2.0

"""What replacements, and clusters, ask of amphora agents.

A SINGLE amphora holds the VIP from the moment at which its agent plugs it. One
that is to wait is booted as one of a pair: its agent then leaves the VIP to
keepalived, which it does not have. take_vip() and release_vip() use that the
agent, asked to plug an interface that is plugged already, makes its addresses
those that it is told ("re-vip-plug", Plug.plug_network of the agent).
"""

import asyncio
import dataclasses
import json

from octavia_hmsync import exceptions

# Bytes; a load balancer may have hundreds of listeners.
_KEPT = 60000
# The same; hundreds of listeners and thousands of members are a megabyte.
_KEPT_OF_HAPROXY = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Subnet:
    """A subnet, as an agent is told of it.

    :param host_routes: (destination, nexthop) pairs.
    """

    cidr: str
    gateway: str | None
    host_routes: tuple = ()

    def describe(self):
        """Return what the agent's API has for it."""
        return {'subnet_cidr': self.cidr, 'gateway': self.gateway,
                'host_routes': [
                    {'destination': destination, 'nexthop': nexthop}
                    for destination, nexthop in self.host_routes]}


@dataclasses.dataclass(frozen=True)
class VipInterface:
    """The interface of an amphora at which its VIPs are.

    :param mac: of its port.
    :param vrrp_ip: the address of its own beside that of the load balancer.
    :param mtu: of the network.
    :param vips: (address, Subnet) pairs, that of the load balancer first.
    :param fixed_ips: (address, Subnet) pairs, all that its port has, vrrp_ip
                      among them. Members may be in any of these subnets.
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

    :param client: an agent_client.RestAgentClient.
    :param amphora_id: the amphora's id.
    :param lb_network_ip: the address of its agent.
    :param timeout: seconds for each request; [hmsync] upload_timeout if None.
    """

    def __init__(self, client, amphora_id, lb_network_ip, timeout=None):
        self._client = client
        self._timeout = timeout
        self.amphora_id = amphora_id
        self.lb_network_ip = lb_network_ip

    def _ask(self, method, path, body='', content_type='application/json',
             allowed=(), kept=_KEPT):
        status, text = asyncio.run(self._client.ask(
            self.amphora_id, self.lb_network_ip, method, path, body,
            content_type, timeout=self._timeout, kept=kept))
        if 200 <= status < 300 or status in allowed:
            return status, text
        # An agent's own words: nothing in them may reach a terminal as it
        # is, and they may repeat what is secret.
        raise exceptions.AgentRefused(
            f'The agent of amphora {self.amphora_id} at {self.lb_network_ip} '
            f'answered {status} to {method} {path}. See '
            f'/var/log/amphora-agent.log in the amphora')

    def _ask_json(self, path):
        _status, text = self._ask('GET', path)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            # No end of brackets is no JSON either.
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} answered no JSON to GET {path}. See '
                f'who answers there') from None

    def get_haproxy(self, load_balancer_id):
        """Return the configuration of haproxy for a load balancer.

        :returns: text, or None if it has none.
        :raises AgentUnreachable, AgentRefused: if it does not say.
        """
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
        """Tell which of the files is there that go beside certificates.

        :param path: below the version of the API.
        :returns: what its agent says, of whatever truth; None if there is
                  none.
        :raises AgentUnreachable, AgentRefused: if it does not say.
        """
        status, text = self._ask('GET', path, allowed=(404,))
        if status == 404:
            return None
        try:
            return str(json.loads(text)['md5sum'])
        except (ValueError, KeyError, TypeError):
            return ''

    def upload_file(self, path, content):
        """Give it such a file.

        :param path: below the version of the API.
        :param content: text, which may be a secret.
        :raises AgentUnreachable, AgentRefused: if it may not have taken it.
        """
        self._ask('PUT', path, content, 'application/octet-stream')

    def reload_haproxy(self, load_balancer_id):
        """Have haproxy be loaded anew; the former one keeps its connections.

        :raises AgentUnreachable, AgentRefused: if it may not have been.
        """
        self._ask('PUT', f'loadbalancer/{load_balancer_id}/reload')

    def get_listeners(self):
        """Tell which listeners it has been configured with.

        :returns: {id of a listener: its status}.
        :raises AgentUnreachable, AgentRefused: if it does not say.
        """
        found = self._ask_json('listeners')
        if not (isinstance(found, list) and all(map(_is_listener, found))):
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} lists no listeners. See who answers '
                f'there')
        return {each['uuid']: each['status'] for each in found}

    def get_interface(self, address):
        """Tell on which of its interfaces an address is.

        :returns: the interface's name, None if it is on none.
        :raises AgentUnreachable, AgentRefused: if it does not say.
        """
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
        """Tell how many of its haproxy processes run, one a load balancer.

        :raises AgentUnreachable, AgentRefused: if it does not say.
        """
        try:
            return int(self._ask_json('details')['haproxy_count'])
        except (KeyError, TypeError, ValueError):
            raise exceptions.AgentRefused(
                f'The agent of amphora {self.amphora_id} at '
                f'{self.lb_network_ip} gives no details of itself. See who '
                f'answers there') from None

    def holds(self, address):
        """Tell whether an address is on one of its interfaces.

        :raises AgentUnreachable, AgentRefused: if it does not say.
        """
        return self.get_interface(address) is not None

    def configure(self, configuration):
        """Replace its own configuration.

        :param configuration: text; it holds a secret.
        :raises AgentUnreachable, AgentRefused: if it did not take it.
        """
        self._ask('PUT', 'config', configuration, 'application/octet-stream')

    def take_vip(self, interface):
        """Have it add the VIPs to its interface; it must be SINGLE by now.

        One that is not plugged yet becomes that of members, without them.

        :param interface: a VipInterface.
        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        self._plug(interface, interface.vips)

    def release_vip(self, interface):
        """Have it take the VIPs from its interface; connections to them end.

        Its own addresses stay: it answers no ARP but for these.

        :param interface: a VipInterface.
        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        self._plug(interface, ((interface.vrrp_ip, interface.vips[0][1]),))

    def _plug(self, interface, vips):
        (vip, subnet), *additional = vips
        described = subnet.describe()
        self._ask('POST', 'plug/network', json.dumps({
            'mac_address': interface.mac, 'mtu': interface.mtu,
            'is_sriov': False,
            # The agent deletes the addresses that are not here.
            'fixed_ips': [{'ip_address': address, **other.describe()}
                          for address, other in interface.fixed_ips],
            'vip_net_info': {
                'vip': vip, 'vrrp_ip': interface.vrrp_ip,
                'mac_address': interface.mac, 'mtu': interface.mtu,
                'is_sriov': False, **described, 'additional_vips': [
                    {'ip_address': address, **other.describe()}
                    for address, other in additional]}}))

    def upload_keepalived(self, configuration):
        """Give it a keepalived configuration; what runs does not read it.

        :raises AgentUnreachable, AgentRefused: if it may not have taken it.
        """
        self._ask('PUT', 'vrrp/upload', configuration,
                  'application/octet-stream')

    def start_keepalived(self):
        """Have keepalived run, with the configuration that it has.

        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        self._ask('PUT', 'vrrp/start')

    def reload_keepalived(self):
        """Have keepalived that runs read its configuration.

        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        self._ask('PUT', 'vrrp/reload')

    def stop_keepalived(self):
        """Have keepalived say goodbye, and end.

        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        self._ask('PUT', 'vrrp/stop')

    def advertise(self, load_balancer_id):
        """Have it tell its neighbours where the VIPs are.

        It does so when it starts haproxy; one that runs is not touched. Only
        for a SINGLE one that holds them.

        :raises AgentUnreachable, AgentRefused: if it may not have done so.
        """
        self._ask('PUT', f'loadbalancer/{load_balancer_id}/start')

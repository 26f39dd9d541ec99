# SPDX-License-Identifier: Apache-2.0

"""The compute service: boots instances, and plugs ports into them."""

import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import socketserver
import threading
import uuid

import fixtures
from openstack import exceptions

from tests.cloud.compute import instance
from tests.cloud import waiting


# Of hmsync_tests_compute, in tests/cloud/site.
_SOCKET = 'OCTAVIA_HMSYNC_TESTS_COMPUTE'


class Refusal(Exception):
    """What the service answers instead; .kind names an error of Octavia's."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Hypervisor(fixtures.Fixture):
    """Serves the compute driver of the tests, over .socket_path.

    A test that wants a call to fail, or to last, puts a callable into
    .before, by the name of the call: it gets the arguments and may raise a
    Refusal.

    :param fabric: a fabric.Fabric.
    :param network: the network proxy of a connection to Neutron.
    :param directory: a short one: it will hold sockets.
    """

    def __init__(self, fabric, network, directory):
        super().__init__()
        self._fabric = fabric
        self._network = network
        self._directory = directory
        self._hosts = itertools.cycle(fabric.hosts)
        self._lock = threading.RLock()
        self.socket_path = os.path.join(directory, 'compute.sock')
        self.instances = {}
        self.images = collections.defaultdict(instance.Image)
        self.before = {}
        # Where nothing is booted; ids of what evacuate() has moved.
        self.dead_hosts = set()
        # By host; others are in Nova's default zone.
        self.zones = {}
        self.evacuated = set()

    def _setUp(self):
        server = _Server(self.socket_path, _Handler)
        server.hypervisor = self
        thread = threading.Thread(target=server.serve_forever, daemon=True,
                                  kwargs={'poll_interval': 0.05})
        thread.start()
        self.addCleanup(self._remove_all)
        self._boots = concurrent.futures.ThreadPoolExecutor(4)
        self.addCleanup(self._boots.shutdown)
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def _remove_all(self):
        for booted in list(self.instances.values()):
            booted.request_stop()
        for booted in list(self.instances.values()):
            booted.remove()

    @property
    def environment(self):
        """What a process of Octavia needs to reach it."""
        return {_SOCKET: self.socket_path}

    @staticmethod
    def octavia_options():
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {'controller_worker': {'compute_driver': 'hmsync_tests'}}

    def call(self, name, arguments):
        """Do what the driver asks for."""
        before = self.before.get(name)
        if before:
            before(**arguments)
        return getattr(self, f'call_{name}')(**arguments)

    def by_amphora(self, amphora_id):
        """Return the instance of an amphora; None where there is none."""
        for booted in list(self.instances.values()):
            if booted.instance_name == f'amphora-{amphora_id}':
                return booted
        return None

    def get_instances(self, host):
        """Return the instances at a host."""
        return [booted for booted in list(self.instances.values())
                if booted.host == host]

    # What the driver calls

    def _get_zone(self, host):
        return self.zones.get(host, 'nova')

    def call_build(self, name, flavor, image_id, network_ids, port_ids, files,
                   security_group_ids, user_data=None, zone=None):
        instance_id = str(uuid.uuid4())
        booted = self.images[image_id].make_instance(
            name, instance_id, files, user_data, self._directory)
        booted.image_id, booted.flavor = image_id, flavor
        booted.host = next(host for host in self._hosts
                           if host not in self.dead_hosts and
                           zone in (None, self._get_zone(host)))
        self.instances[instance_id] = booted
        self._boots.submit(self._boot, booted, network_ids, port_ids,
                           security_group_ids)
        return instance_id

    def _boot(self, booted, network_ids, port_ids, security_group_ids):
        try:
            booted.setUp()
            groups = ({'security_group_ids': security_group_ids}
                      if security_group_ids else {})
            ports = [self._network.create_port(
                network_id=network_id, device_id=booted.instance_id,
                device_owner='compute:nova', binding_host_id=booted.host,
                **groups) for network_id in network_ids]
            for port in ports:
                booted.own_ports.append(port.id)
            ports += [self._network.update_port(
                port_id, binding_host_id=booted.host) for port_id in port_ids]
            self._begin(booted, ports)
            booted.state = 'ACTIVE' if booted.image.boots else 'ERROR'
        except Exception as e:
            booted.state = 'ERROR'
            booted.fault = str(e)

    def _begin(self, booted, ports):
        for port in ports:
            self._plug(booted, port)
        first = ports[0]
        subnet = self._network.get_subnet(first.fixed_ips[0]['subnet_id'])
        prefix = subnet.cidr.partition('/')[2]
        booted.boot(f"{first.fixed_ips[0]['ip_address']}/{prefix}",
                    self._network.get_network(first.network_id).mtu)

    def evacuate(self, booted, host):
        """Boot an instance from its image elsewhere, with all its ports."""
        before, booted.interfaces = booted.interfaces, {}
        booted.start_anew()
        for each in before.values():
            self._fabric.unplug(each['tap'])
        booted.host = host
        self.evacuated.add(booted.instance_id)
        self._begin(booted, [self._network.update_port(
            port_id, binding_host_id=host) for port_id in before])

    def _plug(self, booted, port):
        with self._lock:
            name = f'eth{len(booted.interfaces)}'
            booted.interfaces[port.id] = {
                'name': name, 'net_id': port.network_id, 'port_id': port.id,
                'mac_addr': port.mac_address, 'tap': self._fabric.plug(
                    booted, port.network_id, port.mac_address, name,
                    port.id, booted.host),
                'fixed_ips': [{'subnet_id': ip['subnet_id'],
                               'ip_address': ip['ip_address']}
                              for ip in port.fixed_ips]}
            booted.add_interface(name, port.mac_address)
        return booted.interfaces[port.id]

    def _get(self, instance_id):
        try:
            return self.instances[instance_id]
        except KeyError:
            raise Refusal('NotFound', f'Instance {instance_id}') from None

    def call_get(self, compute_id):
        booted = self._get(compute_id)
        return {'id': compute_id, 'name': booted.instance_name,
                'state': booted.state, 'image_id': booted.image_id,
                'flavor': booted.flavor,
                'zone': self._get_zone(booted.host),
                'fault': booted.fault,
                'interfaces': list(booted.interfaces.values())}

    def call_list(self, name):
        return [{'id': each.instance_id, 'name': each.instance_name,
                 'state': each.state}
                for each in list(self.instances.values())
                if name in each.instance_name]

    def call_get_hosts(self):
        return {instance_id: each.host for instance_id, each in
                list(self.instances.items())}

    def call_list_hosts(self):
        return [{'name': host, 'zone': self._get_zone(host),
                 'is_enabled': host not in self.dead_hosts}
                for host in self._fabric.hosts]

    def call_get_evacuated(self):
        return sorted(self.evacuated)

    def call_delete(self, compute_id):
        booted = self.instances.pop(compute_id, None)
        if booted is None:
            raise Refusal('NotFound', f'Instance {compute_id}')
        taps = [each['tap'] for each in booted.interfaces.values()]
        booted.remove()
        for tap in taps:
            self._fabric.unplug(tap)
        for port_id in {*booted.interfaces, *booted.own_ports}:
            # As Nova, which does not forget them.
            waiting.wait_for(lambda: self._give_back(booted, port_id),
                             f'end of port {port_id}', 120, 1)

    def _give_back(self, booted, port_id):
        """Tell whether the network service took a port back."""
        try:
            if port_id in booted.own_ports:
                self._network.delete_port(port_id)
            else:
                self._release(port_id)
        except exceptions.SDKException:
            return False
        return True

    def _release(self, port_id):
        port = self._network.find_port(port_id)
        if port:
            self._network.update_port(port, device_id='', device_owner='',
                                      binding_host_id='')

    def call_attach(self, compute_id, network_id, ip_address, port_id):
        booted = self._get(compute_id)
        if port_id:
            if port_id in booted.interfaces:
                return booted.interfaces[port_id]
            port = self._network.find_port(port_id)
            if port is None:
                raise Refusal('NotFound', f'Port {port_id}')
            if port.device_id and port.device_id in self.instances:
                raise Refusal('ComputePortInUseException', port_id)
            port = self._network.update_port(
                port, device_id=compute_id, device_owner='compute:nova',
                binding_host_id=booted.host)
        else:
            ips = {'fixed_ips': [{'ip_address': ip_address}]}
            port = self._network.create_port(
                network_id=network_id, device_id=compute_id,
                device_owner='compute:nova', binding_host_id=booted.host,
                **(ips if ip_address else {}))
            booted.own_ports.append(port.id)
        return self._plug(booted, port)

    def call_detach(self, compute_id, port_id):
        booted = self._get(compute_id)
        interface = booted.interfaces.pop(port_id, None)
        if interface is None:
            raise Refusal('NotFound', f'Port {port_id}')
        booted.remove_interface(interface['name'])
        self._fabric.unplug(interface['tap'])
        if port_id in booted.own_ports:
            booted.own_ports.remove(port_id)
            self._network.delete_port(port_id)
        else:
            self._release(port_id)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 50


class _Handler(socketserver.StreamRequestHandler):

    def handle(self):
        request = json.loads(self.rfile.readline())
        try:
            answer = {'result': self.server.hypervisor.call(
                request['call'], request['arguments'])}
        except Refusal as e:
            answer = {'refusal': [e.kind, str(e)]}
        except Exception as e:
            answer = {'refusal': ['ComputeUnknownException', repr(e)]}
        # The worker may have been killed meanwhile.
        with contextlib.suppress(OSError):
            self.wfile.write(json.dumps(answer).encode())

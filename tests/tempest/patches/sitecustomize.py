# SPDX-License-Identifier: Apache-2.0

"""What of octavia-tempest-plugin is changed as it is imported.

It runs in the virtual environment of tempest, before tempest.

TEMPEST_AS_AMPHORA=name: name counts among AMPHORA_PROVIDERS, so that tests of
amphorae run for it, and tests of flavors have keys that clusters have.
TEMPEST_WEB_SERVERS=url: what the suite would have Nova do is done there.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
import urllib.request

AS_AMPHORA = os.environ.get('TEMPEST_AS_AMPHORA')
WEB_SERVERS = os.environ.get('TEMPEST_WEB_SERVERS')
SUITE = 'octavia_tempest_plugin'


def ask(what, **arguments):
    request = urllib.request.Request(
        f'{WEB_SERVERS}/{what}', json.dumps(arguments).encode())
    with urllib.request.urlopen(request, timeout=180) as answer:
        return json.load(answer)


class Keypairs:
    """Of Nova's client: web servers are reached without SSH."""

    def create_keypair(self, name):
        return {'keypair': {'name': name, 'private_key': ''}}

    def delete_keypair(self, name):
        from tempest.lib import exceptions
        raise exceptions.NotFound()

    show_keypair = delete_keypair


def patch_constants(module):
    if AS_AMPHORA:
        module.AMPHORA_PROVIDERS.append(AS_AMPHORA)


def patch_test_base(module):
    if not WEB_SERVERS:
        return
    base = module.LoadBalancerBaseTestWithCompute
    setup_clients = base.setup_clients.__func__

    def setup(cls):
        setup_clients(cls)
        cls.lb_mem_keypairs_client = Keypairs()

    def create(cls, name, network):
        made = ask('make', network_id=network['id'])
        cls.addClassResourceCleanup(ask, 'delete', name=made['name'])
        client = cls.lb_mem_float_ip_client
        floating = client.create_floatingip(
            floating_network_id=module.CONF.network.public_network_id,
            port_id=made['port_id'])['floatingip']
        cls.addClassResourceCleanup(
            module.waiters.wait_for_not_found, client.delete_floatingip,
            client.show_floatingip, floatingip_id=floating['id'])
        address = floating['floating_ip_address']
        cls._by_address = {**getattr(cls, '_by_address', {}),
                           address: made['name']}
        return {'server': {'id': made['name']},
                'ipv4_address': made.get('ipv4'),
                'ipv6_address': made.get('ipv6'),
                'public_ipv4_address': address}

    def install(cls, ip_address, ssh_key, start_id, revoke_cert=False):
        ask('serve', name=cls._by_address[ip_address], number=start_id)

    base.setup_clients = classmethod(setup)
    base._create_webserver = classmethod(create)
    base._install_start_webserver = classmethod(install)
    base._enable_ipv6_nic_webserver = classmethod(lambda *args: None)


def patch_flavors(module):
    if not AS_AMPHORA:
        return

    class Constants:
        LOADBALANCER_TOPOLOGY = 'cluster_affinity'
        SINGLE = 'FLOW'
        ACTIVE_STANDBY = 'SOURCE_IP'

        def __getattr__(self, name, const=module.const):
            return getattr(const, name)

    module.const = Constants()


PATCHES = {
    f'{SUITE}.tests.api.v2.test_flavor': patch_flavors,
    f'{SUITE}.tests.api.v2.test_flavor_profile': patch_flavors,
    f'{SUITE}.tests.scenario.v2.test_load_balancer': patch_flavors,
    f'{SUITE}.common.constants': patch_constants,
    f'{SUITE}.tests.test_base': patch_test_base}


class Finder(importlib.abc.MetaPathFinder):

    def find_spec(self, name, path, target=None):
        if name not in PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            PATCHES[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())

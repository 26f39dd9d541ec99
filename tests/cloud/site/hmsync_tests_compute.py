# SPDX-License-Identifier: Apache-2.0

"""Octavia's compute driver of the tests; see tests/cloud/compute.

Loaded by the processes of Octavia through the entry point beside it.
"""

import json
import os
import socket
import types
import uuid

from octavia.common import constants
from octavia.common import data_models
from octavia.common import exceptions
from octavia.compute import compute_base
from oslo_config import cfg
from stevedore import driver

SOCKET = 'OCTAVIA_HMSYNC_TESTS_COMPUTE'


def _get_zone(availability_zone):
    # Until 2025.1 it is the name of the compute zone itself.
    return ((availability_zone.get(constants.COMPUTE_ZONE)
             if isinstance(availability_zone, dict) else availability_zone) or
            cfg.CONF.nova.availability_zone)


class ComputeDriver(compute_base.ComputeBase):

    def __init__(self):
        super().__init__()
        self._image_driver = driver.DriverManager(
            namespace='octavia.image.drivers',
            name=cfg.CONF.controller_worker.image_driver,
            invoke_on_load=True).driver

    def _call(self, call, /, **arguments):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.environ[SOCKET])
            with client.makefile('rw') as stream:
                json.dump({'call': call, 'arguments': arguments}, stream)
                stream.write('\n')
                stream.flush()
                answer = json.loads(stream.readline())
        if 'result' in answer:
            return answer['result']
        kind, text = answer['refusal']
        raise {
            'NotFound': lambda: exceptions.NotFound(
                resource='Instance', id=text),
            'ComputePortInUseException': lambda:
                exceptions.ComputePortInUseException(port=text),
            'ComputeBuildException': lambda:
                exceptions.ComputeBuildException(fault=text),
        }.get(kind, lambda: exceptions.ComputeUnknownException(exc=text))()

    def build(self, name='amphora_name', amphora_flavor=None,
              image_tag=None, image_owner=None, key_name=None,
              sec_groups=None, network_ids=None, config_drive_files=None,
              user_data=None, port_ids=None, server_group_id=None,
              availability_zone=None):
        return self._call(
            'build', name=name, flavor=amphora_flavor or 'amphora',
            image_id=self._image_driver
            .get_image_id_by_tag(image_tag, image_owner),
            network_ids=list(network_ids or ()),
            port_ids=list(port_ids or ()), zone=_get_zone(availability_zone),
            security_group_ids=list(sec_groups or ()),
            files=config_drive_files or {}, user_data=user_data)

    def delete(self, compute_id):
        try:
            self._call('delete', compute_id=compute_id)
        except exceptions.NotFound:
            # As Nova's driver.
            pass

    def list_instances(self, name):
        """Octavia asks nothing of the kind; Nova could be asked."""
        return self._call('list', name=name)

    def get_hosts(self):
        """As octavia_hmsync.compute.Compute has it."""
        return self._call('get_hosts')

    def list_hosts(self):
        """As octavia_hmsync.compute.Compute has it."""
        return self._call('list_hosts')

    def get_evacuated(self):
        """As octavia_hmsync.compute.Compute has it."""
        return self._call('get_evacuated')

    def status(self, compute_id):
        found, _ = self.get_amphora(compute_id)
        return (constants.UP if found.status == 'ACTIVE' else constants.DOWN)

    def get_amphora(self, compute_id, management_network_id=None):
        found = self._call('get', compute_id=compute_id)
        networks = ([management_network_id] if management_network_id else
                    cfg.CONF.controller_worker.amp_boot_network_list)
        addresses = [each['fixed_ips'][0]['ip_address']
                     for each in found['interfaces']
                     if each['net_id'] in networks]
        return data_models.Amphora(
            compute_id=compute_id, status=found['state'],
            lb_network_ip=addresses[0] if addresses else None,
            cached_zone=found['zone'], image_id=found['image_id'],
            compute_flavor=found['flavor']), found['fault']

    def attach_network_or_port(self, compute_id, network_id=None,
                               ip_address=None, port_id=None):
        return types.SimpleNamespace(**self._call(
            'attach', compute_id=compute_id, network_id=network_id,
            ip_address=ip_address, port_id=port_id))

    def detach_port(self, compute_id, port_id):
        try:
            self._call('detach', compute_id=compute_id, port_id=port_id)
        except exceptions.OctaviaException:
            # As Nova's driver.
            pass

    def create_server_group(self, name, policy):
        return types.SimpleNamespace(id=str(uuid.uuid4()), name=name,
                                     policy=policy)

    def delete_server_group(self, server_group_id):
        pass

    def validate_flavor(self, flavor_id):
        pass

    def validate_availability_zone(self, availability_zone):
        pass

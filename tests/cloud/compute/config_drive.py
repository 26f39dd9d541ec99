# SPDX-License-Identifier: Apache-2.0

"""Config drives as Nova makes them."""

import json
import pathlib
import shutil

from tests.cloud import process


def write(path, name, instance_id, files, user_data, interfaces):
    """Make one, as an image of a CD.

    :param path: of it; the directory beside it, of what is in it, goes.
    :param files: {path: text} to be in the instance.
    :param interfaces: [(name of the link, MAC, MTU, ipaddress interface)]
                       of those that have an address at boot.
    """
    top = pathlib.Path(f'{path}.d')
    latest, content = top / 'openstack/latest', top / 'openstack/content'
    for directory in (latest, content):
        directory.mkdir(parents=True)
    listed = []
    for number, (target, text) in enumerate(files.items()):
        (content / f'{number:04}').write_text(text)
        listed.append({'path': target, 'content_path':
                       f'/content/{number:04}'})
    for what, value in (('meta_data', {
            'uuid': instance_id, 'name': name, 'hostname': name,
            'availability_zone': 'nova', 'launch_index': 0, 'files': listed}),
            ('network_data', _describe_network(interfaces))):
        (latest / f'{what}.json').write_text(json.dumps(value))
    if user_data:
        (latest / 'user_data').write_text(user_data)
    process.run(
        process.system_program('genisoimage', 'mkisofs'), '-quiet', '-o', path,
        '-V', 'config-2', '-r', '-J', '-l', '-allow-lowercase',
        '-allow-multidot', top)
    shutil.rmtree(top)


def _describe_network(interfaces):
    # Without DHCP in the subnet Nova says the address.
    return {
        'links': [{'id': name, 'vif_id': name, 'type': 'ovs', 'mtu': mtu,
                   'ethernet_mac_address': mac}
                  for name, mac, mtu, _ in interfaces],
        'networks': [{'id': f'network{number}', 'link': name,
                      'type': f'ipv{address.version}',
                      'ip_address': str(address.ip),
                      'netmask': str(address.netmask), 'routes': [],
                      'network_id': name}
                     for number, (name, _, _, address) in
                     enumerate(interfaces)],
        'services': []}

# SPDX-License-Identifier: Apache-2.0

"""A picture of how Octavia has plugged a load balancer.

What is another one's after a replacement (ids, addresses of amphorae, MACs) is
put in words, so that two pictures of one load balancer, before and after, are
equal if all is as Octavia had made it::

    before = picture.take(cloud, lb.id)
    ...
    self.assertEqual({}, picture.compare(before, picture.take(cloud, lb.id)))
"""

import ipaddress
import json
import re

from octavia.common import utils
import sqlalchemy as sa

_KEEPALIVED = '/var/lib/octavia/vrrp/octavia-keepalived.conf'
_INTERFACES = '/etc/octavia/interfaces'
# Of those that keepalived gives who has the VIP.
_BY_KEEPALIVED = 'keepalived'
_PAIR = ('MASTER', 'BACKUP')
_PLUGGED = ('addresses', 'routes', 'rules')
_ROLE = re.compile(r'-?(master|backup)(?=[- ])')
# haproxy's, of peers.
_PEER_PORT = ':1025'
# By which image.replace.single sees that it is off, from the replacement of
# a SINGLE one with an IPv6 VIP on.
_DETECTION = '2001:db8::dad'
# What a kernel adds by itself, at some time.
_IGNORED_ROUTES = re.compile(r'^(anycast|multicast|unreachable|ff00::)|'
                             r'\bfe80::')


def take(cloud, load_balancer_id):
    """Take one, of a load balancer that serves.

    :param cloud: an octavia.Octavia.
    :returns: {what: lines}, where what names the role of an amphora and what
              of it, or the network service.
    """
    amphorae = _read_amphorae(cloud, load_balancer_id)
    ports = {amphora['id']: _read_ports(cloud, amphora)
             for amphora in amphorae}
    words = _find_words(cloud, amphorae, ports)
    found, held = {}, set()
    lb = cloud.connection.load_balancer.get_load_balancer(load_balancer_id)
    vips = [lb.vip_address, *(each['ip_address'] for each in
                              lb.additional_vips or ())]
    for amphora in amphorae:
        role = amphora['role']
        for what, lines in _look_into(cloud, load_balancer_id,
                                      amphora).items():
            lines = [_put_in_words(line, words, amphora['id'])
                     for line in lines if _DETECTION not in line]
            # One of a pair has the VIP, whichever it is.
            of_vip = {line for line in lines if what in _PLUGGED and
                      role in _PAIR and _is_of_vip(line, vips)}
            held |= {_ROLE.sub('', line) for line in of_vip}
            found[f'{role} {what}'] = sorted(
                line for line in lines if line not in of_vip)
        found[f'{role} ports'] = sorted(
            _put_in_words(json.dumps(port, sort_keys=True), words,
                          amphora['id'])
            for port in ports[amphora['id']])
    found['held'] = sorted(held)
    found['VIP port'] = sorted(
        _put_in_words(json.dumps(_describe_port(port), sort_keys=True),
                      words, None)
        for port in cloud.connection.network.ports(
            device_id=f'lb-{load_balancer_id}'))
    return found


def compare(before, after):
    """Return what differs: {what: (lines that went, lines that came)}."""
    return {what: (sorted(set(before.get(what, ())) -
                          set(after.get(what, ()))),
                   sorted(set(after.get(what, ())) -
                          set(before.get(what, ()))))
            for what in {*before, *after}
            if before.get(what, ()) != after.get(what, ())}


def _read_amphorae(cloud, load_balancer_id):
    with cloud.engine.connect() as connection:
        return [dict(row) for row in connection.execute(
            sa.text("SELECT * FROM amphora WHERE load_balancer_id = :id AND "
                    "status = 'ALLOCATED' ORDER BY role"),
            {'id': load_balancer_id}).mappings()]


def _read_ports(cloud, amphora):
    return [{**_describe_port(port), 'mac': port.mac_address}
            for port in cloud.connection.network.ports(
                device_id=amphora['compute_id'])]


def _describe_port(port):
    return {'network': port.network_id, 'name': port.name,
            'is_up': port.is_admin_state_up, 'owner': port.device_owner,
            'addresses': sorted((each['subnet_id'], each['ip_address'])
                                for each in port.fixed_ips),
            'groups': sorted(port.security_group_ids),
            'security': port.is_port_security_enabled,
            'qos': port.qos_policy_id,
            'pairs': sorted(each['ip_address']
                            for each in port.allowed_address_pairs)}


def _find_words(cloud, amphorae, ports):
    """Return {what is an amphora's own: a word for it}."""
    subnets = {subnet.id: subnet.cidr
               for subnet in cloud.connection.network.subnets()}
    words = {}
    for amphora in amphorae:
        role = amphora['role'].lower()
        words |= {
            amphora['id']: f'<{role}>', amphora['compute_id']: f'<i-{role}>',
            # As haproxy names its peers.
            utils.base64_sha1_string(amphora['id']).rstrip('='):
                f'<peer-{role}>'}
        for port in ports[amphora['id']]:
            words[port['mac']] = f'<mac-{role}-{port["network"]}>'
            for subnet_id, address in port['addresses']:
                words[address] = f'<{role} in {subnets[subnet_id]}>'
    return words


def _is_of_vip(line, vips):
    return _BY_KEEPALIVED in line or any(
        re.search(_make_pattern(vip), line) for vip in vips)


def _make_pattern(own):
    """Return a pattern that finds no longer address, such as 10.0.0.11."""
    after = (rf'(?!\w|:(?!{_PEER_PORT[1:]}\b))' if ':' in own
             else r'(?!\w|\.\d)')
    return rf'(?<![\w.:]){re.escape(own)}{after}'


def _put_in_words(line, words, amphora_id):
    if amphora_id:
        line = line.replace(f'local_peer {amphora_id}', 'local_peer <own>')
    for own, word in sorted(words.items(), key=lambda each: -len(each[0])):
        line = re.sub(_make_pattern(own), word, line)
    return line


def _look_into(cloud, load_balancer_id, amphora):
    """Return {what: lines} of what is inside an amphora."""
    inside = cloud.compute.by_amphora(amphora['id']).run_inside
    names = _find_interfaces(inside)
    addresses = [
        f'{names.get(link["ifname"])} {each["local"]}/{each["prefixlen"]} '
        f'{" ".join(sorted(key for key in each if key in _FLAGS))}'
        f'{each.get("protocol", "")}'
        for link in json.loads(inside('ip', '-j', 'address').stdout)
        for each in link['addr_info'] if each['scope'] == 'global']
    routes = [
        _name(route, names) for family in ('-4', '-6')
        for route in inside('ip', family, 'route', 'show', 'table',
                            'all').stdout.splitlines()
        if not _IGNORED_ROUTES.search(route)]
    rules = [rule.partition('\t')[2] for family in ('-4', '-6')
             for rule in inside('ip', family, 'rule').stdout.splitlines()]
    directory = f'/var/lib/octavia/{load_balancer_id}'
    files = {'keepalived': _KEEPALIVED,
             'haproxy': f'{directory}/haproxy.cfg'}
    found = {
        'addresses': addresses, 'routes': routes, 'rules': rules,
        'certificates': inside('sh', '-c', 'cd /var/lib/octavia/certs && find '
                               '. -type f -exec sha256sum {} +',
                               check=False).stdout.splitlines()}
    for what, path in files.items():
        text = inside('cat', path, check=False).stdout
        found[what] = [] if _DETECTION in text else [
            _name(line, names) for line in text.splitlines()]
    found['interface files'] = sorted({
        _name(line, names) for line in _read_interface_files(inside)})
    return found


def _read_interface_files(inside):
    """Yield a line for each thing that the agent plugs, as often as it may."""
    for name in inside('ls', _INTERFACES).stdout.split():
        found = json.loads(inside('cat', f'{_INTERFACES}/{name}').stdout)
        name = name.removesuffix('.json')
        for kind in ('addresses', 'routes', 'rules'):
            for each in found.pop(kind):
                yield f'{name} {kind} ' + json.dumps({
                    key: _compress(value) for key, value in each.items()
                    if (key, value) != ('octavia_owned', True)},
                    sort_keys=True)
        for when, scripts in found.pop('scripts').items():
            for each in scripts:
                yield f'{name} {when} {each["command"]}'
        yield f'{name} {json.dumps(found, sort_keys=True)}'


def _compress(value):
    """Write an IPv6 address, or network, in the one way."""
    if not isinstance(value, str) or ':' not in value:
        return value
    address, slash, prefix = value.partition('/')
    return f'{ipaddress.ip_address(address)}{slash}{prefix}'


# That keep an address from being used.
_FLAGS = ('tentative', 'dadfailed', 'deprecated')


def _find_interfaces(inside):
    """Return {name: MAC}, as two may have changed names."""
    return {link['ifname']: link['address'] for link in json.loads(
        inside('ip', '-j', 'link').stdout) if link['ifname'] != 'lo'}


def _name(line, names):
    return re.sub(r'\beth\d+\b', lambda found: names.get(
        found[0], found[0]), line)

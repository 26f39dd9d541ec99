# SPDX-License-Identifier: Apache-2.0

"""Finds values of options that do not do what an operator wants.

Each function returns a list of lines, one for each fault.
"""

import difflib
from importlib import metadata
import ipaddress
import socket

from oslo_config import cfg
import oslo_messaging

from octavia_hmsync import addresses as addr
from octavia_hmsync.cluster.api import readiness
from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import network
from octavia_hmsync.notifications import broker
from octavia_hmsync.sync.db import zone as zone_repo

# The driver of the address that the port of a node has.
_NODE_PORT = 'neutron_port'
# Octavia's own driver of statistics, which writes those of tenants.
_OF_TENANTS = 'stats_db'
_METRICS = ('health_manager_metrics_address', 'house_keeping_metrics_address')
# Groups of Octavia that the plugin reads.
_READ = ('DEFAULT', 'api_settings', 'amphora_agent', 'controller_worker',
         'haproxy_amphora', 'health_manager', 'house_keeping', 'task_flow')


def find_unreadable(conf):
    """Find options of Octavia that end each command and each service."""
    found = []
    for group in _READ:
        values = conf if group == 'DEFAULT' else conf[group]
        for name in values:
            try:
                values[name]
            except (cfg.Error, ValueError) as e:
                found.append(f'[{group}] {name} cannot be used: '
                             f'{groups.describe_error(e)}. Correct it.')
    return found


def find_useless(conf):
    """Find values of options that have no effect, or not the wanted one."""
    return [*_find_metrics(conf), *_find_amphora_driver(conf),
            *_find_notifications(conf), *_find_transport(conf),
            *_find_unused(conf), *_find_misspelt_provider(conf),
            *_find_default_provider(conf), *_find_groups(conf),
            *_find_subnet(conf)]


def find_statistics(conf):
    """Find what drivers of statistics are missing."""
    drivers = conf.controller_worker.statistics_drivers
    if _OF_TENANTS in drivers:
        return _find_missing('[controller_worker] statistics_drivers', drivers,
                             'octavia.statistics.drivers', 'it is told '
                             'nothing')
    return [f'[controller_worker] statistics_drivers has no {_OF_TENANTS}, '
            f'Octavia\'s default: the API shows tenants no statistics any '
            f'more. Add it.']


def find_zone(conf, engine):
    """Find a zone that Octavia does not know."""
    zone = conf.hmsync.zone
    known = zone_repo.get_all_names(engine) if zone else set()
    if not zone or zone in known:
        return []
    return [f'[hmsync] zone = {zone} is neither an availability zone of '
            f'Octavia with a management_network of its own nor the '
            f'compute_zone of one '
            f'({", ".join(sorted(known)) or "there is none"}): no amphora '
            f'sends its heartbeats here. Correct or remove it.']


def find_network(conf, engine):
    """Find options that keep new amphorae out of the management network.

    The values of a file win over those that are supplied.
    """
    group = conf[network_conf.GROUP]
    ids = network_repo.get_ids(engine, group.network_name)
    if ids is None:
        if conf.controller_worker.amp_boot_network_list:
            return []
        if not group.supply_options:
            return _find_no_network(conf)
        return [f'[hmsync_network] supply_options = True supplies nothing: no '
                f'network {group.network_name} was made, and new amphorae '
                f'have none. Run "octavia-hmsync network ensure", or correct '
                f'network_name.']
    found = []
    for option, made in (('amp_boot_network_list', ids.network_id),
                         ('amp_secgroup_list',
                          ids.amphora_security_group_id)):
        values = conf.controller_worker[option]
        if made in values or not values and group.supply_options:
            continue
        name = f'[controller_worker] {option}'
        found.append(
            f'{name} = {",".join(values)} in octavia.conf keeps new amphorae '
            f'out of what "network ensure" has made, {made}: '
            f'{"take it out" if group.supply_options else f"name {made}"}, '
            f'or leave it as it is until they are to move.' if values else
            f'{name} is empty, and new amphorae are not in what "network '
            f'ensure" has made: name {made}, or set [hmsync_network] '
            f'supply_options = True.')
    return found


def find_node(conf, engine):
    """Find options by which this host has no port in the network.

    Only of a host that has one, or is to have one.
    """
    group = conf[network_conf.GROUP]
    ids = network_repo.get_ids(engine, group.network_name)
    if ids is None or not (
            conf.hmsync.address_driver == _NODE_PORT or group.binding_host or
            group.ovsdb_connection or port_repo.get(engine, conf.host)):
        return []
    # Imported late: it is slow.
    from octavia_hmsync import cloud
    from octavia_hmsync.network import node
    from octavia_hmsync.network import port

    try:
        ports = port.NodePorts(conf, cloud.connect(conf), ids)
    except exceptions.CloudUnavailable as e:
        return [str(e)]
    return node.find_wrong_options(conf, engine, ports)


def _find_no_network(conf):
    """Tell of an empty amp_boot_network_list, where Nova has to choose."""
    if conf.controller_worker.compute_driver != compat_compute.NOVA_DRIVER:
        return []
    return ['[controller_worker] amp_boot_network_list is empty: Nova takes '
            'the only network of the project of Octavia for new amphorae, '
            'and with none or several it builds nothing. Name the management '
            'network there.']


def find_ports(conf):
    """Find ports of Octavia at which nothing can be reached."""
    return [f'[{group}] bind_port = 0 is any free port, and {effect}: set it '
            f'to that of all controllers, {usual} by default.'
            for group, usual, effect in (
                ('health_manager', 5555, 'no health manager registers'),
                ('haproxy_amphora', 9443, 'no agent of an amphora can be '
                                          'reached'))
            if not conf[group].bind_port]


def find_providers(conf):
    """Find what enabled_provider_drivers takes from the Octavia API."""
    enabled = conf.api_settings.enabled_provider_drivers
    if set(compat.AMPHORA_PROVIDERS) & set(enabled):
        return []
    return [f'[api_settings] enabled_provider_drivers has no amphora, but '
            f'{", ".join(sorted(enabled))}: the API cannot change or delete '
            f'load balancers of provider amphora. Add it, as in Octavia\'s '
            f'default.']


def _find_metrics(conf):
    found, addresses = [], {}
    for option in _METRICS:
        text = conf.hmsync[option].strip()
        if not text:
            continue
        name = f'[hmsync] {option} = {text}'
        try:
            ip, _port = addresses[option] = addr.parse_address(text)
            _bind(ip, socket.SOCK_STREAM)
        except exceptions.InvalidAddress:
            found.append(f'{name} is not an address: write IPV4:PORT or '
                         f'[IPV6]:PORT, or there are no metrics and no '
                         f'answers to probes.')
        except OSError as e:
            found.append(f'{name} is not an address of this host '
                         f'({e.strerror}): correct it, or there are no '
                         f'metrics here.')
    if len(addresses) > 1 and len(set(addresses.values())) == 1:
        found.append(f'[hmsync] {" and ".join(_METRICS)} are the same: on a '
                     f'host with both services one of them has no metrics. '
                     f'Give each its own port.')
    return found


def check_bind_ip(bind_ip):
    """Raise InvalidAddress if a health manager cannot listen there."""
    try:
        _bind(ipaddress.ip_address(bind_ip), socket.SOCK_DGRAM)
    except OSError as e:
        raise exceptions.InvalidAddress(
            f'nothing can listen at [health_manager] bind_ip = {bind_ip} '
            f'({e.strerror}): set it to an address of this host.') from e


def _bind(ip, kind):
    """Bind to an address at any port, as services may be using their own."""
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    with socket.socket(family, kind) as sock:
        sock.bind((str(ip), 0))


def _find_amphora_driver(conf):
    name = conf.controller_worker.amphora_driver
    return _find_missing('[controller_worker] amphora_driver', [name],
                         'octavia.amphora.drivers', 'no amphora can be '
                         'configured')


def _find_notifications(conf):
    return _find_missing(
        '[oslo_messaging_notifications] driver', broker.get_drivers(conf),
        'oslo.messaging.notify.drivers', 'nothing is notified')


def _find_missing(option, names, namespace, effect):
    known = {point.name for point in metadata.entry_points(group=namespace)}
    return [f'{option} = {name} is not installed here, so {effect}: take one '
            f'of {", ".join(sorted(known))}.'
            for name in names if name not in known]


def _find_transport(conf):
    try:
        name = oslo_messaging.TransportURL.parse(conf).transport
    except (oslo_messaging.InvalidTransportURL, ValueError):
        # Its text holds the password.
        return ['[DEFAULT] transport_url cannot be read: correct it.']
    return _find_missing('[DEFAULT] transport_url', [name.split('+')[0]],
                         'oslo.messaging.drivers', 'octavia-worker does not '
                         'start')


def _find_unused(conf):
    """Find an address that an operator gave, and that is not announced."""
    driver = conf.hmsync.address_driver
    if driver == 'static' or not conf.hmsync.static_address:
        return []
    return [f'[hmsync] static_address has no effect with address_driver = '
            f'{driver}: set address_driver = static, or remove it.']


def _find_misspelt_provider(conf):
    enabled = set(conf.api_settings.enabled_provider_drivers)
    # Others may be installed where octavia-api runs.
    unknown = enabled - {point.name for point in metadata.entry_points(
        group='octavia.api.drivers')}
    return [f'[api_settings] enabled_provider_drivers has {name}, which is '
            f'not installed here: write {readiness.PROVIDER}.'
            for name in difflib.get_close_matches(readiness.PROVIDER, unknown)]


def _find_default_provider(conf):
    api = conf.api_settings
    if api.default_provider_driver in api.enabled_provider_drivers:
        return []
    return [f'[api_settings] default_provider_driver = '
            f'{api.default_provider_driver} is not in '
            f'enabled_provider_drivers: the API refuses load balancers '
            f'without a provider. Add it there.']


def _find_groups(conf):
    group = conf[network_conf.GROUP]
    if group.amphora_security_group != group.health_manager_security_group:
        return []
    return [f'[{network_conf.GROUP}] amphora_security_group and '
            f'health_manager_security_group are both '
            f'{group.amphora_security_group}: "network ensure" makes two '
            f'groups with other rules. Give each its own name.']


def _find_subnet(conf):
    try:
        if conf[network_conf.GROUP].management_subnet_cidr:
            network.read_cidr(conf)
    except exceptions.InvalidConfiguration as e:
        return [f'{e} "network ensure" cannot make it. Correct it.']
    return []

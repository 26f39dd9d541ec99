# SPDX-License-Identifier: Apache-2.0

"""The options of clusters of amphorae, all in ``[hmsync_cluster]``.

The options of the distributor process are in ``[hmsync_distributor]``, on the
network nodes.
"""

import dataclasses
import re
import urllib.parse

from oslo_config import cfg

from octavia_hmsync import exceptions

GROUP = 'hmsync_cluster'

FLOW = 'FLOW'
SOURCE_IP = 'SOURCE_IP'

DISTRIBUTOR_PORT = 9444
_NAME = re.compile(r'[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?')
_EXAMPLE = ('write https://HOST:9444, or NAME=https://HOST:9444 with the '
            'name of the node as Neutron knows it')

_AFFINITIES = [
    (FLOW, 'by addresses and ports: a connection stays with its amphora'),
    (SOURCE_IP, 'by address: a client stays with its amphora')]

_distributor_opts = [
    cfg.ListOpt('distributors', default=[],
                help='Where octavia-hmsync-distributor listens on each '
                     'network node: https://network1:9444. Neutron has to '
                     'know the node by the host of the URL (binding:host_id); '
                     'where it does not, the name goes before it: '
                     'network1=https://10.0.0.7:9444. The name of a '
                     'distributor in an instance that was not booted by '
                     'housekeeping is the UUID of that instance. Each '
                     'cluster has two distributors, the least used ones: '
                     'with only one, none takes over when it dies. The '
                     'clusters of a distributor that leaves the list move '
                     'to others.'),
    cfg.IntOpt('distributor_timeout', default=5, min=1, max=60,
               advanced=True,
               help='Seconds that a distributor may take for a whole '
                    'request. After that another one becomes active for the '
                    'cluster. A larger value tolerates a slow distributor, '
                    'and leaves traffic on a dead one for longer.'),
    cfg.StrOpt('distributor_ca',
               help='File with the CA certificates for the certificates of '
                    'distributors. [haproxy_amphora] server_ca by default.'),
    cfg.StrOpt('distributor_client_cert',
               help='File with the certificate that this controller shows '
                    'to distributors. [haproxy_amphora] client_cert by '
                    'default.'),
    cfg.StrOpt('distributor_client_key',
               help='File with its private key. By default that is in the '
                    'file with the certificate.'),
    cfg.IntOpt('pin_timeout', default=3600, min=60, max=7 * 86400,
               advanced=True,
               help='Seconds without a packet, at most, after which a '
                    'distributor forgets the amphora of a connection that '
                    'it remembers since the amphorae of the cluster '
                    'changed. It is less where all listeners of the load '
                    'balancer close silent connections sooner '
                    '(timeout_client_data, timeout_member_data). A larger '
                    'value keeps more connections only where these '
                    'time-outs are longer, and a change of amphorae costs '
                    'distributors more for as long.'),
]

_instance_opts = [
    cfg.IntOpt('distributor_instances', default=0, min=0, max=64,
               help='How many distributors housekeeping may boot in '
                    'instances, 0 for none. It boots another one when fewer '
                    'than two have room for more load balancers. With fewer '
                    'than two, no load balancer has a second distributor to '
                    'take over. A distributor that is replaced exists beside '
                    'the new one for a while. A smaller number deletes '
                    'nothing: "octavia-hmsync distributor instance delete" '
                    'does.'),
    cfg.IntOpt('distributor_instance_vips', default=20, min=2, max=1000,
               advanced=True,
               help='How many load balancers a distributor in an instance '
                    'carries: before that is reached, another one is booted. '
                    'At the limit of distributor_instances, distributors get '
                    'as many as the compute service can plug: each load '
                    'balancer is a network interface of the instance, beside '
                    'its interface in the management network, and Nova with '
                    'libvirt often allows some 25. A larger value boots '
                    'fewer instances; with a smaller one each carries less '
                    'traffic.'),
    cfg.StrOpt('distributor_image_tag', default='hmsync-distributor',
               help='Tag of the image of such an instance; the newest of '
                    'several images is used. Its owner must be '
                    '[controller_worker] amp_image_owner_id, if that is '
                    'set.'),
    cfg.StrOpt('distributor_flavor_id',
               help='Id of its flavor in the compute service. Its processors '
                    'carry all packets to its load balancers.'),
    cfg.StrOpt('distributor_network_id',
               help='Id of the network in which controllers reach it. The '
                    'first one of [controller_worker] amp_boot_network_list '
                    'by default.'),
    cfg.ListOpt('distributor_secgroup_list', default=[],
                help='Ids of the security groups of its port in that '
                     'network: they must let only controllers reach TCP port '
                     '9444.'),
    cfg.StrOpt('distributor_server_group',
               help='Id of a server group of the compute service. With the '
                    'policy anti-affinity a dead host takes only one '
                    'distributor with it.'),
    cfg.ListOpt('distributor_instance_clients', default=[],
                advanced=True,
                help='Common names of the certificates of controllers that '
                     'it accepts: list those of all controllers, where they '
                     'differ. By default that of distributor_client_cert.'),
]

_size_opts = [
    cfg.IntOpt('desired_size', default=2, min=1,
               help='Number of amphorae of a cluster whose flavor sets none. '
                    'Each carries traffic, and takes an instance.'),
    cfg.IntOpt('min_size', default=1, min=1,
               help='Smallest number of amphorae of a cluster whose flavor '
                    'sets none: with fewer it is not ACTIVE, and a change '
                    'that fewer take has failed. With a larger value more '
                    'changes fail; a smaller one leaves more traffic to '
                    'each amphora that is left.'),
    cfg.IntOpt('size_limit', default=8, min=1, max=64,
               help='Largest number of amphorae of a cluster, whatever its '
                    'flavor asks for. With a larger value one load balancer '
                    'may take more of the compute service.'),
    cfg.IntOpt('cooldown', default=60, min=0,
               advanced=True,
               help='Seconds between two changes of the size of a cluster. '
                    'Replacements do not wait for it. A smaller value '
                    'follows the load sooner, and builds amphorae that are '
                    'not needed any more a moment later.'),
    cfg.IntOpt('standby', default=0, min=0, max=8,
               help='Number of standbys of each cluster: amphorae that are '
                    'built and wait. A standby takes the place of a dead '
                    'amphora at once; each takes an instance that does '
                    'nothing else.'),
    cfg.IntOpt('peer_group_size', default=2, min=2, max=3,
               advanced=True,
               help='Number of amphorae that tell each other which client '
                    'belongs to which member of a pool, for session '
                    'persistence. With 3, two may die; each amphora tells '
                    'all others of its group.'),
    cfg.StrOpt('affinity', default=FLOW, choices=_AFFINITIES,
               help='How a distributor spreads traffic over the amphorae of '
                    'a cluster whose flavor does not set it. SOURCE_IP '
                    'spreads the load of few clients badly.'),
]

# Nova's names for the policies of a server group.
PLACEMENTS = {'soft': 'soft-anti-affinity', 'hard': 'anti-affinity'}
_PLACEMENTS = [
    ('nova', 'as [nova] enable_anti_affinity and anti_affinity_policy say'),
    ('soft', 'on different hosts as far as there are enough'),
    ('hard', 'on different hosts; without a free host none is built')]

_place_opts = [
    cfg.StrOpt('host_placement', default='nova', choices=_PLACEMENTS,
               help='Whether Nova keeps the amphorae of a new cluster on '
                    'different hosts, by a server group for each cluster. '
                    'With hard, a replacement needs one host more than the '
                    'cluster has amphorae; with soft, a dead host may take '
                    'several amphorae with it.'),
]

_manager_opts = [
    cfg.StrOpt('cluster_manager', default='reference',
               advanced=True,
               help='The manager that decides for new clusters: an entry '
                    'point of octavia_hmsync.cluster_managers. The managers '
                    'of all clusters must be installed on all controllers '
                    'that look after clusters.'),
    cfg.BoolOpt('keep_in_housekeeping', default=True,
                advanced=True,
                help='Whether octavia-housekeeping looks after clusters. If '
                     'not, octavia-hmsync-cluster-manager must run: else no '
                     'dead amphora is replaced. Both may run at once.'),
]

_time_opts = [
    cfg.IntOpt('tls_ticket_period', default=86400, min=0, max=7 * 86400,
               advanced=True,
               help='Seconds after which the amphorae of a cluster get '
                    'another key for TLS session tickets. All of them share '
                    'it: a client resumes its session at any of them. '
                    'Housekeeping reloads each haproxy for that, one after '
                    'the other, which ends connections without a request at '
                    'that moment. A larger value does so less often; with a '
                    'smaller one a key that leaks exposes fewer sessions. '
                    'The keys are derived from the first of [certificates] '
                    'server_certs_key_passphrase, which must be the same on '
                    'all controllers. 0: each haproxy has keys of its own, '
                    'and a client that comes to another amphora does a full '
                    'handshake. The same holds while that passphrase is '
                    'Octavia\'s default.'),
    cfg.IntOpt('update_timeout', default=30, min=1, max=600,
               advanced=True,
               help='Seconds within which an amphora of a cluster must take '
                    'a new configuration; all are told at once. An amphora '
                    'that does not take it gets no new connections. A larger '
                    'value tolerates slow amphorae, and makes each change '
                    'wait longer for a hung one.'),
    cfg.IntOpt('drain_timeout', default=300, min=0,
               mutable=True,
               help='Seconds that an amphora which leaves a cluster keeps '
                    'its connections. A larger value breaks fewer '
                    'connections, and keeps its instance for longer.'),
    cfg.IntOpt('keeper_interval', default=5, min=1,
               advanced=True,
               help='Seconds between two looks of a housekeeper at clusters '
                    'that need repair, and at the distributors. A smaller '
                    'value repairs sooner; each look is some SELECTs, and a '
                    'request to each distributor.'),
]

_status_opts = [
    cfg.BoolOpt('show_status', default=True,
                advanced=True,
                help='Whether the Octavia API shows a cluster with missing '
                     'amphorae as DEGRADED, and with fewer than min_size '
                     'amphorae as ERROR. Octavia itself does not: it takes '
                     'each heartbeat of an amphora for the health of the '
                     'load balancer. With this option the plugin, in '
                     'octavia-health-manager, changes the operating status '
                     'that Octavia writes for load balancers of provider '
                     'amphora_cluster, and for no others. Give all health '
                     'managers the same value, and restart them. Without it '
                     'the API shows such load balancers as ONLINE as long as '
                     'one amphora is well; "octavia-hmsync cluster list" '
                     'shows their true state.'),
]

OPTS = (_distributor_opts + _instance_opts + _size_opts +
        _place_opts + _manager_opts + _time_opts + _status_opts)


@dataclasses.dataclass(frozen=True)
class Distributor:
    """A distributor: its node's name in Neutron, and https://HOST:PORT."""

    name: str
    url: str


def parse_distributors(texts: list[str]) -> tuple[Distributor, ...]:
    """Read the option ``distributors``.

    :param texts: URLs or NAME=URL, see its help.
    :raises InvalidConfiguration: naming the text that cannot be used.
    """
    found: list[Distributor] = []
    for text in texts:
        distributor = _parse_distributor(text)
        for other in found:
            if distributor.name.lower() == other.name.lower():
                raise _refuse(text, f'{other.url} has the name {other.name}, '
                                    f'too: give each its own, NAME=URL')
            if distributor.url == other.url:
                raise _refuse(text, 'it is in the list twice: remove one')
        found.append(distributor)
    return tuple(found)


def _refuse(text: str, reason: str) -> exceptions.InvalidConfiguration:
    return exceptions.InvalidConfiguration(
        f'[{GROUP}] distributors cannot be used: "{text}", {reason}.')


def _parse_distributor(text: str) -> Distributor:
    text = ' '.join(text.split())
    name, equals, url = text.partition('=')
    if not equals or '://' in name:
        name, url = '', text
    elif not _NAME.fullmatch(name.strip()):
        raise _refuse(text, f'"{name}" is no name of a node: {_EXAMPLE}')
    try:
        parts = urllib.parse.urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as e:
        raise _refuse(text, f'{e}: {_EXAMPLE}') from None
    if parts.scheme != 'https':
        raise _refuse(text, f'only https is spoken: {_EXAMPLE}')
    if not host or re.search(r'[\s\\%]', host) or port == 0:
        raise _refuse(text, f'it names no host and port: {_EXAMPLE}')
    if (parts.path not in ('', '/') or parts.query or parts.fragment or
            '@' in parts.netloc):
        raise _refuse(text, f'there is more than a host and a port in it: '
                            f'{_EXAMPLE}')
    return Distributor(name.strip() or host, make_url(host, port))


def make_url(host: str, port: int | None = None) -> str:
    shown = f'[{host}]' if ':' in host else host
    return f'https://{shown}:{port or DISTRIBUTOR_PORT}'


def get_distributors(conf: cfg.ConfigOpts) -> tuple[Distributor, ...]:
    """Return the distributors, or raise InvalidConfiguration."""
    return parse_distributors(conf[GROUP].distributors)


def check(conf: cfg.ConfigOpts) -> None:
    """Check how the options fit together, or raise InvalidConfiguration."""
    get_distributors(conf)
    opts = conf[GROUP]
    for smaller, larger in (('min_size', 'desired_size'),
                            ('desired_size', 'size_limit')):
        if opts[smaller] > opts[larger]:
            raise exceptions.InvalidConfiguration(
                f'[{GROUP}] {smaller} = {opts[smaller]} is more than '
                f'{larger} = {opts[larger]}: no cluster could have both. '
                f'Lower {smaller} or raise {larger}.')

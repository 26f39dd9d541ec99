# SPDX-License-Identifier: Apache-2.0

"""The options of clusters of amphorae, all in ``[hmsync_cluster]``.

Those of the distributors' own process are in ``[hmsync_distributor]``, on
their nodes.
"""

import dataclasses
import re
import urllib.parse

from oslo_config import cfg

from octavia_hmsync.conf import sync as hmsync_conf
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
                     'network1=https://10.0.0.7:9444. The name of one in an '
                     'instance that somebody else has booted is the UUID of '
                     'that instance. Each cluster has two of them, those '
                     'with the fewest: with one alone nobody takes over '
                     'when it dies. The clusters of one that leaves the '
                     'list go to others.'),
    cfg.IntOpt('distributor_timeout', default=5, min=1, max=60,
               help='Seconds that a distributor may take for a request in '
                    'all. After them another one becomes active for the '
                    'cluster. A larger value bears with a slow one, and '
                    'keeps connections to one that is dead for longer.'),
    cfg.StrOpt('distributor_ca',
               help='File with the certificates of those who may have issued '
                    'that of a distributor. [haproxy_amphora] server_ca by '
                    'default.'),
    cfg.StrOpt('distributor_client_cert',
               help='File with the certificate that this controller shows '
                    'to distributors. [haproxy_amphora] client_cert by '
                    'default.'),
    cfg.StrOpt('distributor_client_key',
               help='File with its private key. By default that is in the '
                    'file with the certificate.'),
    cfg.IntOpt('pin_timeout', default=3600, min=60, max=7 * 86400,
               help='Seconds without a packet after which a distributor '
                    'forgets where a connection belongs that stayed with '
                    'its amphora when others came or went, at most. It is '
                    'less where all listeners of the load balancer close '
                    'silent connections sooner (timeout_client_data, '
                    'timeout_member_data). Only where these are longer does '
                    'a larger value keep more connections; a change of '
                    'members costs distributors more for as long.'),
]

_instance_opts = [
    cfg.IntOpt('distributor_instances', default=0, min=0, max=64,
               help='How many distributors housekeeping may boot in '
                    'instances: as soon as two of them have no room for '
                    'more load balancers, another one, up to that number. '
                    'Without two, no load balancer has somebody to take '
                    'over. One that is replaced exists beside the new one '
                    'for a while. 0 for none. A smaller number deletes '
                    'nothing: "octavia-hmsync distributor instance delete" '
                    'does.'),
    cfg.IntOpt('distributor_instance_vips', default=20, min=2, max=1000,
               help='How many load balancers a distributor in an instance is '
                    'good for: before two of them have so many, another one '
                    'is booted. Where distributor_instances are reached, '
                    'they get as many as the compute service plugs: each is '
                    'a network interface of it, beside that of the '
                    'management network, of which there are often some 25 '
                    'with Nova and libvirt. A larger value boots fewer; '
                    'with a smaller one each carries less traffic.'),
    cfg.StrOpt('distributor_image_tag', default='hmsync-distributor',
               help='Tag of the image of such an instance; of several the '
                    'newest one is taken. Its owner has to be '
                    '[controller_worker] amp_image_owner_id, if that is '
                    'set.'),
    cfg.StrOpt('distributor_flavor_id',
               help='Id of its flavor in the compute service. All packets '
                    'to its load balancers pass through its processors.'),
    cfg.StrOpt('distributor_network_id',
               help='Id of the network in which controllers reach it. The '
                    'first one of [controller_worker] amp_boot_network_list '
                    'by default.'),
    cfg.ListOpt('distributor_secgroup_list', default=[],
                help='Ids of the security groups of its port in that '
                     'network: they have to let controllers reach TCP port '
                     '9444, and nobody else.'),
    cfg.StrOpt('distributor_server_group',
               help='Id of a server group of the compute service. With the '
                    'policy anti-affinity no two of them are on one host, '
                    'which would take both with it.'),
    cfg.ListOpt('distributor_instance_clients', default=[],
                help='Common names of the certificates of controllers that '
                     'it listens to: those of all of them, where they '
                     'differ. By default that of distributor_client_cert.'),
    cfg.IntOpt('distributor_boot_timeout', default=600, min=30, max=7200,
               help='Seconds within which an instance has to boot and its '
                    'distributor to answer. One that does not is deleted, '
                    'and another one booted. A larger value bears with a '
                    'slower compute service, and finds later what never '
                    'will be.'),
]

_ovn_opts = [
    cfg.ListOpt('ovn_nb_connection',
                default=['unix:/var/run/ovn/ovnnb_db.sock'],
                help='Where OVN\'s northbound database is, for [controller_'
                     'worker] distributor_driver = hmsync_ovn: as Neutron '
                     'has it in [ovn] ovn_nb_connection, all members of the '
                     'database, ssl:10.0.0.5:6641. Set it with hmsync_ovs and '
                     'ML2/OVN, too, in octavia.conf of all controllers: '
                     'floating IPs that OVN distributes, by which clusters '
                     'get no answer back, are found and refused.'),
    cfg.ListOpt('ovn_sb_connection',
                default=['unix:/var/run/ovn/ovnsb_db.sock'],
                help='Where OVN\'s southbound database is, which tells '
                     'whether amphorae answer: as Neutron has it in [ovn] '
                     'ovn_sb_connection.'),
    cfg.StrOpt('ovn_private_key',
               help='File with the private key for a connection with ssl. '
                    'Neutron\'s [ovn] ovn_nb_private_key.'),
    cfg.StrOpt('ovn_certificate',
               help='File with the certificate that this controller shows '
                    'to OVN. Neutron\'s [ovn] ovn_nb_certificate.'),
    cfg.StrOpt('ovn_ca_cert',
               help='File with the certificates of those who may have issued '
                    'that of OVN. Neutron\'s [ovn] ovn_nb_ca_cert.'),
    cfg.IntOpt('ovn_timeout', default=20, min=1, max=180,
               help='Seconds that a change of OVN\'s database may take. A '
                    'larger value bears with a busy database; with a smaller '
                    'one a change is said sooner not to be possible.'),
]

_size_opts = [
    cfg.IntOpt('desired_size', default=2, min=1,
               help='Amphorae of a cluster whose flavor does not tell. Each '
                    'carries traffic, and takes an instance.'),
    cfg.IntOpt('min_size', default=1, min=1,
               help='Amphorae that a cluster needs at least, where its flavor '
                    'does not tell: with fewer it is not ACTIVE, and a '
                    'change that fewer take has failed. A larger value '
                    'refuses more often; a smaller one leaves more traffic '
                    'to each that is left.'),
    cfg.IntOpt('size_limit', default=8, min=1, max=64,
               help='Amphorae that a cluster may have at most, whatever its '
                    'flavor asks for. A larger value takes more of the '
                    'compute service for one load balancer.'),
    cfg.IntOpt('cooldown', default=60, min=0,
               help='Seconds between two changes of the size of a cluster. '
                    'A replacement waits for none. A smaller value follows '
                    'the load sooner, and builds what is not needed any '
                    'more a moment later.'),
    cfg.IntOpt('standby', default=0, min=0, max=8,
               help='Amphorae of each cluster that are built and wait. With '
                    'one the place of a dead amphora is taken at once; each '
                    'takes an instance that does nothing else.'),
    cfg.IntOpt('peer_group_size', default=2, min=2, max=3,
               help='Amphorae that tell each other which client belongs to '
                    'which member of a pool, for session persistence. With '
                    '3 two may die; each tells all others of its group.'),
    cfg.StrOpt('affinity', default=FLOW, choices=_AFFINITIES,
               help='By what a distributor spreads traffic over the amphorae '
                    'of a cluster whose flavor does not tell. SOURCE_IP '
                    'spreads the load of few clients badly.'),
]

# By what a server group of Nova is called.
PLACEMENTS = {'soft': 'soft-anti-affinity', 'hard': 'anti-affinity'}
_PLACEMENTS = [
    ('nova', 'as [nova] enable_anti_affinity and anti_affinity_policy say'),
    ('soft', 'on different hosts as far as there are enough'),
    ('hard', 'on different hosts; one for which there is none is not built')]

_place_opts = [
    cfg.StrOpt('host_placement', default='nova', choices=_PLACEMENTS,
               help='Whether Nova keeps the amphorae of a cluster that is '
                    'made from now on on different hosts, by a server group '
                    'of its own. With hard one that is replaced needs a host '
                    'more than the cluster has amphorae; with soft the loss '
                    'of a host may take several of them.'),
]

_manager_opts = [
    cfg.StrOpt('cluster_manager', default='reference',
               help='Who decides for clusters that are made from now on: an '
                    'entry point of octavia_hmsync.cluster_managers. Each '
                    'that any cluster has must be installed on all '
                    'controllers that look after clusters.'),
    cfg.BoolOpt('keep_in_housekeeping', default=True,
                help='Whether octavia-housekeeping looks after clusters. '
                     'Without it octavia-hmsync-cluster-manager has to run: '
                     'else nothing that dies is replaced. Both may run at '
                     'once.'),
]

_time_opts = [
    cfg.IntOpt('tls_ticket_period', default=86400, min=0, max=7 * 86400,
               help='Seconds after which the amphorae of a cluster make TLS '
                    'session tickets by another key, which all of them '
                    'have: a client resumes its session at any of them. '
                    'Housekeeping has each haproxy loaded anew for that, one '
                    'after the other, which ends connections over which '
                    'nothing is asked at that moment. A larger value does so '
                    'less often; with a smaller one a key that leaks tells '
                    'of fewer sessions. The keys come from the first of '
                    '[certificates] server_certs_key_passphrase, which has '
                    'to be the same on all controllers. 0: each haproxy has '
                    'keys of its own, and a client that comes to another '
                    'amphora does a full handshake; so it is, too, as long '
                    'as that passphrase is the one that Octavia has by '
                    'default.'),
    cfg.IntOpt('update_timeout', default=30, min=1, max=600,
               help='Seconds in which an amphora of a cluster has to take a '
                    'new configuration; all are asked at once. One that '
                    'does not gets no new connections any more. A larger '
                    'value bears with slow ones, and lets each change wait '
                    'for one that hangs.'),
    cfg.IntOpt('drain_timeout', default=300, min=0,
               help='Seconds that an amphora which leaves a cluster keeps '
                    'its connections. A larger value breaks fewer, and '
                    'keeps its instance for longer.'),
    cfg.IntOpt('keeper_interval', default=5, min=1,
               help='Seconds between two looks of a housekeeper at clusters '
                    'that are not as they should be, and at the '
                    'distributors. A smaller value repairs sooner; each '
                    'look is some SELECTs, and a request to each '
                    'distributor.'),
]

_status_opts = [
    cfg.BoolOpt('show_status', default=True,
                help='Whether the Octavia API shows a cluster of which some '
                     'amphorae are missing as DEGRADED, and one with less '
                     'than min_size of them as ERROR. Octavia knows no such '
                     'thing: each heartbeat of an amphora says that all is '
                     'well. octavia-hmsync sees to it in '
                     'octavia-health-manager, where it changes what Octavia '
                     'writes as the operating status of load balancers of '
                     'provider amphora_cluster, and of no others. Give all '
                     'health managers the same value, and restart them. '
                     'Without, nothing of that is changed, and the API shows '
                     'them as ONLINE as long as one amphora is well; '
                     '"octavia-hmsync cluster list" tells better.'),
]

OPTS = (_distributor_opts + _instance_opts + _ovn_opts + _size_opts +
        _place_opts + _manager_opts + _time_opts + _status_opts)


@dataclasses.dataclass(frozen=True)
class Distributor:
    """A process on a network node.

    :param name: the node, as Neutron knows it.
    :param url: https://HOST:PORT.
    """

    name: str
    url: str


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the group ``[hmsync_cluster]`` and its options.

    :param conf: the oslo.config object to register with; doing it twice is
                 harmless.
    """
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for the sample configuration.

    :returns: a list of (group name, options).
    """
    return [(GROUP, OPTS)]


def neutralize(conf: cfg.ConfigOpts) -> str | None:
    """Find options with values that cannot be read; see conf.sync.

    :param conf: a parsed oslo.config object with our options registered.
    :returns: what is wrong and what to do, or None if all can be read.
    """
    problem: str | None = hmsync_conf.neutralize(conf, GROUP, OPTS)
    return problem


def parse_distributors(texts: list[str]) -> tuple[Distributor, ...]:
    """Read the option ``distributors``.

    :param texts: what it has, see its help.
    :returns: them in that order.
    :raises InvalidConfiguration: naming the one that cannot be used.
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
    """Return the URL of a distributor.

    :param host: its name or address.
    :param port: None for the usual one.
    """
    shown = f'[{host}]' if ':' in host else host
    return f'https://{shown}:{port or DISTRIBUTOR_PORT}'


def get_distributors(conf: cfg.ConfigOpts) -> tuple[Distributor, ...]:
    """Return the distributors of the option.

    :param conf: a parsed oslo.config object with our options registered.
    :raises InvalidConfiguration: if there is one that cannot be used.
    """
    return parse_distributors(conf[GROUP].distributors)


def check(conf: cfg.ConfigOpts) -> None:
    """Check what one option alone cannot tell.

    :param conf: a parsed oslo.config object with our options registered.
    :raises InvalidConfiguration: naming the option and what to do.
    """
    problem = neutralize(conf)
    if problem:
        raise exceptions.InvalidConfiguration(problem)
    get_distributors(conf)
    opts = conf[GROUP]
    for smaller, larger in (('min_size', 'desired_size'),
                            ('desired_size', 'size_limit')):
        if opts[smaller] > opts[larger]:
            raise exceptions.InvalidConfiguration(
                f'[{GROUP}] {smaller} = {opts[smaller]} is more than '
                f'{larger} = {opts[larger]}: no cluster could have both. '
                f'Lower {smaller} or raise {larger}.')

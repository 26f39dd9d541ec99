# SPDX-License-Identifier: Apache-2.0

"""The options of the plugin, all in the group ``[hmsync]``."""

import math

from oslo_config import cfg
from oslo_config import types

from octavia_hmsync import exceptions

GROUP = 'hmsync'
# The value of [hmsync] driver in every environment.
DRIVER = 'octavia_hmsync'

# Seconds for which the uploads of a batch wait for upload_rate, at most.
_RATED_SECONDS = 10

# failover_hold_max, unless that is less than what the guard can do.
_HOLD_MAX = 300

_keepalive_opts = [
    cfg.IntOpt('keepalive_interval', default=5, min=1,
               advanced=True,
               help='Seconds between two keepalives that a health manager '
                    'or a housekeeper writes to the database. A smaller '
                    'value finds a lost health manager sooner; each '
                    'keepalive is one UPDATE of one row.'),
    cfg.IntOpt('offline_after', default=20, min=2,
               advanced=True,
               help='Seconds without a keepalive after which a health '
                    'manager counts as dead. A smaller value shortens the '
                    'time that amphorae send to a dead address; one below '
                    'twice keepalive_interval takes every slow write for a '
                    'death and is refused.'),
    cfg.StrOpt('address_driver', default='bind_ip',
               help='Where a health manager finds the address that it '
                    'advertises to amphorae, an entry point of '
                    'octavia_hmsync.address.drivers: bind_ip takes '
                    '[health_manager] bind_ip, interface the lowest usable '
                    'address of address_interface that lies in '
                    'allowed_networks, IPv4 before IPv6, neutron_port that '
                    'which the node\'s port in the management network has '
                    '("octavia-hmsync network port plug"), static takes '
                    'static_address. The port is [health_manager] '
                    'bind_port. With bind_ip nothing can be advertised that '
                    'the health manager does not listen at; the others '
                    'leave that to you.'),
    cfg.StrOpt('address_interface', default='o-hm0',
               help='Network interface whose address the drivers interface '
                    'and neutron_port advertise, and which "octavia-hmsync '
                    'network port plug" makes. It is looked at before each '
                    'keepalive: another address of it is published to every '
                    'amphora.'),
    cfg.IPOpt('static_address',
              help='Address that the driver static advertises, for a '
                   'health manager behind address translation. Whether '
                   'heartbeats to it arrive here is not checked: with a '
                   'wrong one amphorae waste their heartbeats.'),
    cfg.ListOpt('allowed_networks', default=[],
                item_type=types.String(),
                help='Networks (CIDR) in which an advertised address must '
                     'lie, usually the amphora management network. A wrong '
                     'interface or address is then refused instead of '
                     'being sent to every amphora. Where address_interface '
                     'has several addresses, such as an alias beside the '
                     'node\'s own, this chooses among them: an alias can '
                     'be named alone, as a network of one address. Empty '
                     'allows any.'),
    cfg.StrOpt('zone',
               help='Availability zone of Octavia, or its compute_zone, '
                    'whose amphorae alone reach this health manager; only '
                    'for zones whose profile has a management_network of '
                    'its own, and different on the controllers of each. '
                    'Amphorae of such a zone send their heartbeats to the '
                    'health managers of their zone, and to those without a '
                    'zone where it has none; all other amphorae to those '
                    'without one. Set it when all controllers have a '
                    'release of the plugin that knows it. A wrong one gives '
                    'amphorae addresses that they do not reach: these come '
                    'back from the trial of the list. Empty for a health '
                    'manager that all amphorae reach.'),
    cfg.ListOpt('further_networks', default=[],
                item_type=types.String(),
                advanced=True,
                help='Networks (CIDR) in which a health manager announces '
                     'its address besides that of address_driver: the '
                     'lowest one there that any interface of its host has. '
                     'Amphorae in such a network get the addresses in it '
                     'alone, all others what they get without this option. '
                     'For the time in which the management network moves; '
                     'the same on all controllers, and bind_ip a wildcard. '
                     'Each network costs an address of each health manager '
                     'in the published list.'),
    cfg.BoolOpt('allow_loopback', default=False,
                advanced=True,
                help='Accept a loopback address as an advertised one. Only '
                     'for tests on one machine: no amphora elsewhere could '
                     'reach it.'),
]

_membership_opts = [
    cfg.IntOpt('poll_interval', default=2, min=1,
               advanced=True,
               help='Seconds between two looks at the membership, at the '
                    'published list and at the amphorae that are due. A '
                    'smaller value detects a change sooner; each look costs '
                    'a few SELECTs in each housekeeper and health manager '
                    '(its failover guard looks as often), and two in each '
                    'worker.'),
    cfg.IntOpt('settle_time', default=2, min=0,
               advanced=True, mutable=True,
               help='Seconds that a new health manager must have been '
                    'ONLINE before its address is published, so that '
                    'several that start together are one change. A larger '
                    'value means fewer uploads in a slow rolling restart '
                    'and a later first heartbeat at a new health manager, '
                    'also where all others are gone.'),
    cfg.IntOpt('removal_delay', default=60, min=0,
               advanced=True, mutable=True,
               help='Seconds after its last keepalive for which the address '
                    'of a lost health manager stays published, so that a '
                    'restart at the same address changes nothing. A larger '
                    'value spares uploads and lets amphorae waste '
                    'heartbeats for longer. Not waited for when the '
                    'heartbeat gap that dead addresses leave would come '
                    'near heartbeat_timeout.'),
    cfg.IntOpt('restart_grace', default=20, min=0,
               advanced=True, mutable=True,
               help='Seconds after its goodbye within which a health manager '
                    'may be back at its address: for as long it keeps its '
                    'place, however many others restart at the same time. '
                    'Up to three times as long where its last restart, or '
                    'that of another one which is back since, took longer '
                    'than half of it, and while its process says that it '
                    'starts. A larger value suits slow restarts; where '
                    'nearly all end for good, amphorae send to dead '
                    'addresses for as long, and the failover guard holds '
                    'back amphorae that fall silent. It changes nothing where '
                    'health managers are replaced at other addresses.'),
]

_upload_opts = [
    cfg.IntOpt('upload_timeout', default=10, min=1,
               advanced=True,
               help='Seconds that one upload to one amphora may take in '
                    'all: connection, TLS handshake, request and answer. A '
                    'larger value gives a slow amphora more time, but an '
                    'amphora that hangs occupies its place for longer.'),
    cfg.IntOpt('upload_concurrency', default=512, min=1,
               advanced=True,
               help='Uploads in flight at once in one process, of all its '
                    'batches together. A larger value passes more '
                    'unresponsive amphorae by at a time, each of which '
                    'occupies a place for upload_timeout, and costs one '
                    'socket each; it is never more than three quarters of '
                    'the files that the process may open, and 32 with '
                    'another amphora driver than the REST one.'),
    cfg.IntOpt('upload_rate', default=0, min=0,
               mutable=True,
               help='Uploads that one process begins per second, at most. A '
                    'smaller value spares the management network and the '
                    'hypervisors, and makes a sync take longer: number of '
                    'amphorae divided by this and by the number of '
                    'housekeepers. 0 sets no limit.'),
    cfg.IntOpt('batch_size', default=200, min=1, max=2000,
               advanced=True,
               help='Amphorae that a housekeeper claims at once; with '
                    'upload_rate no more than begin within 10 s. A larger '
                    'value costs fewer statements; a housekeeper that dies '
                    'leaves at most that many amphorae of each of its '
                    'batches waiting for claim_expiry.'),
    cfg.IntOpt('claim_expiry', default=120, min=5,
               advanced=True,
               help='Seconds after which the amphorae claimed by a '
                    'housekeeper that died are taken over by another. Must '
                    'be longer than a whole batch takes when no amphora '
                    'answers: upload_timeout times the number of rounds, '
                    'which is batch_size divided by upload_concurrency, '
                    'rounded up, plus one for those of other batches; and '
                    '10 s more with upload_rate. A larger value lets the '
                    'amphorae of a dead housekeeper wait for longer.'),
    cfg.IntOpt('retry_interval', default=10, min=1,
               advanced=True, mutable=True,
               help='Seconds before an amphora whose upload failed is tried '
                    'again; doubled for each further attempt, up to 60 times '
                    'as long, with up to a quarter of jitter. A smaller '
                    'value catches up sooner an amphora that comes back, and '
                    'tries dead ones more often, each of which takes '
                    'upload_timeout.'),
]

_rollout_opts = [
    cfg.IntOpt('canary_size', default=3, min=0,
               mutable=True,
               help='Amphorae that get a list with new addresses before all '
                    'others, chosen by chance, and as many more as it takes '
                    'to try each new address. When those of one load '
                    'balancer fall silent with it, more are asked, up to '
                    'ten. When those of several do, or no '
                    'heartbeat comes to a new address, the last good list '
                    'is put back and the others never get the bad one. A '
                    'larger value finds an address that only '
                    'some amphorae cannot reach; 0 sends every list to all '
                    'at once. Not waited for when amphorae cannot be heard '
                    'at their old addresses any more, nor when a list only '
                    'loses addresses.'),
    cfg.IntOpt('canary_wait', default=60, min=0,
               advanced=True, mutable=True,
               help='Seconds for which these amphorae are watched, and those '
                    'of each wave; at least half of heartbeat_timeout and '
                    'three heartbeat intervals, and until each address has '
                    'had its turn. A larger value finds losses '
                    'that come and go, and brings new addresses to the '
                    'others later by as much.'),
    cfg.IntOpt('wave_size', default=0, min=0,
               mutable=True,
               help='Amphorae that get the list next, and are watched for '
                    'canary_wait, before the next as many. A smaller value '
                    'limits what a bad list can do, and makes the rollout '
                    'take longer: canary_wait for each wave. 0 sends it to '
                    'all others at once.'),
]

_guard_opts = [
    cfg.IntOpt('failover_hold_max', min=0,
               help='Longest time in seconds for which an amphora that no '
                    'health manager could hear is kept from being failed '
                    'over. A larger value gives a large fleet, or a '
                    'housekeeper that is down, more time; an amphora that '
                    'dies while all its health managers are replaced is '
                    'failed over later by as much. 300 by default, or as '
                    'long as [health_manager] heartbeat_timeout if that is '
                    'more. A value below heartbeat_timeout is refused, '
                    'because no amphora is kept for less than that; only 0 is '
                    'accepted, which switches the guard off.'),
]

_notification_opts = [
    cfg.BoolOpt('event_notifications', default=True,
                help='Tell other services what happens to health managers, '
                     'lists and amphorae. As with Octavia\'s own option of '
                     'this name, nothing is sent unless '
                     '[oslo_messaging_notifications] driver is set. The '
                     'values must be the same on all controllers: changes '
                     'by a controller that sends nothing are not announced.'),
]

_metrics_opts = [
    cfg.StrOpt('health_manager_metrics_address', default='',
               help='IPV4:PORT or [IPV6]:PORT at which octavia-health-'
                    'manager serves metrics to Prometheus, and answers '
                    'probes of Kubernetes (/healthz, /readyz). Every client '
                    'that reaches it can read both, without a password and '
                    'without TLS: '
                    'take an address of the monitoring network, or a '
                    'loopback address behind a proxy. Empty serves none.'),
    cfg.StrOpt('house_keeping_metrics_address', default='',
               help='The same for octavia-housekeeping, which often shares '
                    'its host and octavia.conf with a health manager and '
                    'needs a port of its own.'),
]

OPTS = (_keepalive_opts + _membership_opts + _upload_opts + _rollout_opts +
        _guard_opts + _notification_opts + _metrics_opts)


def batch_limit(opts):
    """Return how many amphorae a batch may have.

    With upload_rate no more than can begin within some seconds, because more
    urgent work, such as the canaries of a new list, has to wait for the batch.
    """
    if not opts['upload_rate']:
        return opts['batch_size']
    return min(opts['batch_size'], _RATED_SECONDS * opts['upload_rate'])


def _longest_batch(opts):
    """Return the seconds that a batch takes if no amphora answers."""
    limit = batch_limit(opts)
    rounds = -(-limit // opts['upload_concurrency']) + 1
    seconds = rounds * opts['upload_timeout']
    if opts['upload_rate']:
        seconds += limit / opts['upload_rate']
    return seconds


def hold_max(conf):
    """Return ``failover_hold_max`` or its default; 0: no guard."""
    value = conf[GROUP].failover_hold_max
    if value is None:
        return max(_HOLD_MAX, _shortest_hold(conf))
    return value


def _shortest_hold(conf):
    """Return the shortest hold, in seconds, that can put off a failover."""
    timeout = conf.health_manager.heartbeat_timeout
    # From half of it on the guard looks, each poll_interval.
    return max(timeout, math.ceil(timeout / 2 + conf[GROUP].poll_interval))


def check(conf):
    """Raise InvalidConfiguration if options contradict each other."""
    opts = conf[GROUP]
    if opts['offline_after'] < 2 * opts['keepalive_interval']:
        raise exceptions.InvalidConfiguration(
            f"[{GROUP}] offline_after = {opts['offline_after']} is less than "
            f"twice keepalive_interval = {opts['keepalive_interval']}: every "
            f"slow write would count as a death. Raise offline_after.")
    longest = _longest_batch(opts)
    if opts['claim_expiry'] <= longest:
        raise exceptions.InvalidConfiguration(
            f"[{GROUP}] claim_expiry = {opts['claim_expiry']} is not longer "
            f"than a batch takes in which no amphora answers ({longest:.0f} "
            f"s): its last uploads would never begin. Raise it or "
            f"upload_concurrency, or lower batch_size or upload_timeout.")
    interval = conf.health_manager.heartbeat_interval
    if interval < 1 or conf.health_manager.heartbeat_timeout <= interval:
        raise exceptions.InvalidConfiguration(
            f"[health_manager] heartbeat_timeout = "
            f"{conf.health_manager.heartbeat_timeout} must be longer than "
            f"heartbeat_interval = {interval}, and that at least 1: with "
            f"these values every amphora counts as dead.")
    shortest = _shortest_hold(conf)
    if 0 < hold_max(conf) < shortest:
        raise exceptions.InvalidConfiguration(
            f"[{GROUP}] failover_hold_max = {hold_max(conf)} is less than "
            f"{shortest}: an amphora that is kept from being failed over at "
            f"all is kept for one [health_manager] heartbeat_timeout. Raise "
            f"it, leave it out, or set it to 0 to switch the guard off.")

# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync host list, host drain, host hold, host release."""

import collections

from cliff import command
from oslo_utils import timeutils

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import rollout_start
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.cli import until
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import host_hold as hold_repo
from octavia_hmsync.sync.rules import host_hold

_NAME = ('host', 'its name, as "octavia-hmsync host list" has it')


class ListHosts(base.ListCommand):
    """List the compute hosts that amphorae are on.

    only_here counts load balancers that no other host serves: a host that is
    lost takes these down. left_out counts those that "host drain" could not
    move now, and left_out_by names them and says why. A host that takes no
    new instances is disabled. held_until is the end of "host hold". evacuated
    has the amphorae that Nova has rebuilt there when it evacuated another
    host.
    """

    COLUMNS = ('name', 'status', 'amphorae', 'loadbalancers', 'only_here',
               'left_out')
    LONG_COLUMNS = ('left_out_by', 'zone', 'reason', 'held_until',
                    'evacuated')
    METAVAR = '<host>'
    WITH_OCTAVIA = True

    def read(self, conf, engine, parsed_args):
        from octavia_hmsync import compute
        from octavia_hmsync.image import causes
        from octavia_hmsync.image import inventory

        load_balancers = inventory.Inventory(conf, engine).get_page(
            with_places=True)
        source = compute.connect(conf)
        hosts = source.list_hosts()
        places = source.get_hosts()
        evacuated = (source.get_evacuated() if base.is_long(
            parsed_args, self.LONG_COLUMNS) else set())
        holds = hold_repo.get_all(engine)
        left_out = self._read_left_out(conf, engine, load_balancers, hosts,
                                       places)
        names = {each.id: each.name for each in load_balancers}
        counts: collections.Counter = collections.Counter()
        served: dict[str, set[str]] = collections.defaultdict(set)
        alone: collections.Counter = collections.Counter()
        rebuilt: dict[str, list[str]] = collections.defaultdict(list)
        for load_balancer in load_balancers:
            on = {places.get(amphora.compute_id)
                  for amphora in load_balancer.amphorae} - {None}
            counts.update(places.get(amphora.compute_id)
                          for amphora in load_balancer.amphorae)
            for amphora in load_balancer.amphorae:
                if amphora.compute_id in evacuated:
                    rebuilt[places.get(amphora.compute_id)].append(amphora.id)
            for host in on:
                served[host].add(load_balancer.id)
                alone[host] += causes.find_without_second(load_balancer, host,
                                                          places)
        return [(host.name, _describe(host), counts[host.name],
                 len(served[host.name]), alone[host.name],
                 *_describe_left_out(left_out.get(host.name), names),
                 host.zone, host.reason, base.format_time(holds[host.name])
                 if host.name in holds else None,
                 formatters.List(rebuilt[host.name]))
                for host in sorted(hosts, key=lambda each: each.name)]

    def _read_left_out(self, conf, engine, load_balancers, hosts, places):
        """Return {host: {id of a load balancer: why}}; empty if unknown."""
        from octavia_hmsync.image.rollout import reading
        from octavia_hmsync.image import target

        opts = conf[image_conf.GROUP]
        try:
            fleets = reading.read_left_out(
                conf, engine, target.Targets(conf),
                rollout_repo.from_options(opts).mode, timeutils.utcnow(),
                load_balancers, hosts, places)
        except exceptions.CloudUnavailable as e:
            # The rest matters most when a service is away.
            self.app.stderr.write(f'It is not known what a drain would leave '
                                  f'out: {e}\n')
            return {}
        return {host: fleet.get_left_out() for host, fleet in fleets.items()}


def _describe_left_out(whys, names):
    """Return the values of left_out and left_out_by; whys: None if unknown."""
    if whys is None:
        return None, None
    return len(whys), formatters.Objects(
        [{'loadbalancer_id': lb_id, 'name': names[lb_id], 'left_out_by': why}
         for lb_id, why in sorted(whys.items())],
        lambda each: f"{each['name'] or each['loadbalancer_id']}: "
                     f"{each['left_out_by']}")


def _describe(host):
    return ('DOWN' if not host.is_up else
            'ENABLED' if host.is_enabled else 'DISABLED')


class DrainHost(rollout_start.Starter):
    """Have all amphorae leave a compute host, make before break.

    This is a rollout of the load balancers with an amphora there, with the
    settings that "rollout start" has. The host must take no new
    instances: see "openstack compute service set --disable". A new amphora
    that comes to this host all the same is not taken. What is left out, and
    why, --dry-run and "host list --long" tell.
    """

    ARGUMENT = _NAME

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        selection.add_only(parser)
        return parser

    def _read_cause(self, _conf, _engine, parsed_args):
        from octavia_hmsync.image import causes

        return causes.Cause(causes.Kind.HOST, parsed_args.host)


class HoldHost(base.Change, command.Command):
    """Have failovers wait while a compute host is rebooted.

    An amphora of the host that falls silent is not failed over, and a member
    of a cluster not replaced, while amphorae on other hosts serve its load
    balancer. A load balancer that no other host serves is failed over as
    ever: "host drain" moves it before. What is dead when the hold ends is
    failed over. What comes to the host later is not held: run it again, also
    for another end.
    """

    ARGUMENT = _NAME
    DRY_RUN = 'what would wait'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        until.add_argument(parser, host_hold.LONGEST)
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync import compute
        from octavia_hmsync.image import causes
        from octavia_hmsync.image import inventory

        conf, engine = self.open_database(with_octavia=True)
        if not hmsync_conf.hold_max(conf):
            raise exceptions.NotPossible(
                'With [hmsync] failover_hold_max = 0 no failover guard runs '
                'that could hold a host: give it another value, and restart '
                'the health managers.')
        host = parsed_args.host
        until.check(engine, parsed_args.until, host_hold.LONGEST, 'A hold')
        source = compute.connect(conf)
        problem = causes.why_unknown(source.list_hosts(), host)
        if problem:
            raise exceptions.NotPossible(problem)
        places = source.get_hosts(host)
        there = [load_balancer for load_balancer in
                 inventory.Inventory(conf, engine).get_page(with_places=True)
                 if any(places.get(amphora.compute_id) == host
                        for amphora in load_balancer.amphorae)]
        ids = [amphora.id for load_balancer in there
               for amphora in load_balancer.amphorae
               if places.get(amphora.compute_id) == host]
        alone = sum(causes.find_without_second(load_balancer, host, places)
                    for load_balancer in there)
        would = 'would be' if parsed_args.dry_run else 'is'
        if not parsed_args.dry_run:
            amphora_repo.add_missing(engine, ids)
            hold_repo.begin(engine, host, parsed_args.until, ids)
        self.say(f'Host {host} {would} held until '
                 f'{base.format_time(parsed_args.until)} UTC: failovers of '
                 f'{len(ids)} amphorae wait while other hosts serve their '
                 f'load balancers.')
        if alone:
            what = base.count(alone, 'load balancer has',
                              'load balancers have')
            self.say(f'{what} no amphora elsewhere, and will be failed over '
                     f'as ever: run "octavia-hmsync host drain {host}" '
                     f'before.')


class ReleaseHost(until.Release):
    """End a hold of a compute host: what is dead there is failed over."""

    ARGUMENT = _NAME
    DRY_RUN = 'whether it is held'
    STATE = 'held'
    REPOSITORY = hold_repo

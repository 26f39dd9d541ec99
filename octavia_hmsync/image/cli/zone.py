# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync zone list, zone drain, zone release."""

import collections

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import rollout_start
from octavia_hmsync.image.cli import selection
from octavia_hmsync.image.cli import until
from octavia_hmsync.sync.cli import drain
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo

_NAME = ('zone', 'its name, as "octavia-hmsync zone list" has it')
# Seconds for which a zone is drained at most; another order prolongs it.
_LONGEST = 72 * 3600


class ListZones(base.ListCommand):
    """List the compute zones that amphorae are in.

    only_here counts load balancers that no other zone serves. A zone is
    DISABLED if none of its hosts takes new instances. drained_until is the
    end of "zone drain", and build_in its --build-in. health_managers have the
    zone as [hmsync] zone.
    """

    COLUMNS = ('name', 'status', 'amphorae', 'loadbalancers', 'only_here')
    LONG_COLUMNS = ('drained_until', 'build_in', 'health_managers')
    METAVAR = '<zone>'
    WITH_OCTAVIA = True

    def read(self, conf, engine, parsed_args):
        from octavia_hmsync import compute
        from octavia_hmsync.image import inventory

        enabled: dict[str, bool] = collections.defaultdict(bool)
        for host in compute.connect(conf).list_hosts():
            if host.zone:
                enabled[host.zone] |= host.is_enabled
        drains = drain_repo.get_all(engine)
        builds = drain_repo.get_builds(engine)
        managers: dict[str, list[str]] = collections.defaultdict(list)
        for member in hm_repo.get_all(engine):
            managers[member.zone or ''].append(member.host)
        counts: collections.Counter = collections.Counter()
        served: collections.Counter = collections.Counter()
        alone: collections.Counter = collections.Counter()
        for load_balancer in inventory.Inventory(conf, engine).get_page(
                with_places=True):
            zones = {amphora.zone for amphora in load_balancer.amphorae}
            counts.update(amphora.zone for amphora in load_balancer.amphorae)
            served.update(zones)
            alone.update(zones if len(zones) == 1 else ())
        names = {*enabled, *counts, *drains} - {None}
        return [(name, 'ENABLED' if enabled[name] else 'DISABLED',
                 counts[name], served[name], alone[name],
                 base.format_time(drains.get(name)), builds.get(name),
                 formatters.List(managers[name])) for name in sorted(names)]


class DrainZone(rollout_start.Starter):
    """Have amphorae and health managers leave a compute zone for a while.

    Amphorae leave by a rollout, as with "host drain"; what Octavia builds in
    this zone by its availability zone stays, as --dry-run tells. Meanwhile
    members of clusters are built in other zones, and with --build-in also
    new load balancers and failovers of Octavia. Health managers whose
    [hmsync] zone it is leave the list. When it ends, by itself or by "zone
    release", they come back, and a rollout evens out clusters and pairs over
    their zones. Run it again for another end.
    """

    ARGUMENT = _NAME
    MAY_BE_NOTHING = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        until.add_argument(parser, _LONGEST)
        parser.add_argument(
            '--build-in', metavar='<zone>',
            help='where Octavia builds meanwhile what no availability zone '
                 'of its own names a zone for')
        selection.add_only(parser)
        return parser

    def _act(self, conf, engine, parsed_args):
        from octavia_hmsync import compute
        from octavia_hmsync.image import causes

        zone = parsed_args.zone
        until.check(engine, parsed_args.until, _LONGEST, 'A drain')
        problem = causes.why_zone_not_drained(
            compute.connect(conf).list_hosts(), zone, parsed_args.build_in,
            drain_repo.get_all(engine))
        if problem:
            raise exceptions.NotPossible(problem)
        default = conf.nova.availability_zone
        if parsed_args.build_in and (
                not default or default.partition(':')[0] == zone):
            # As services have it when the drain has begun.
            conf.set_override('availability_zone', parsed_args.build_in,
                              group='nova')
        self._leaving = drain.check_zone(engine, zone,
                                         conf.hmsync.offline_after)
        return super()._act(conf, engine, parsed_args)

    def _is_same(self, active, settings, _undo_of):
        """Another run changes the end alone."""
        return (active.settings.cause, active.settings.cause_value) == (
            settings.cause, settings.cause_value)

    def _read_cause(self, _conf, _engine, parsed_args):
        from octavia_hmsync.image import causes

        return causes.Cause(causes.Kind.ZONE, parsed_args.zone)

    def _prepare(self, engine, parsed_args):
        if not parsed_args.dry_run:
            drain_repo.begin(engine, parsed_args.zone, parsed_args.until,
                             bool(self._leaving), parsed_args.build_in)
        would = 'would be' if parsed_args.dry_run else 'is'
        self._say(f'Zone {parsed_args.zone} {would} drained until '
                  f'{base.format_time(parsed_args.until)} UTC. Health '
                  f'managers that leave the list meanwhile: '
                  f'{", ".join(self._leaving) or "none"}.')


class ReleaseZone(until.Release):
    """End a drain of a compute zone.

    Housekeeping then ends its rollout, if it still runs, and starts one that
    evens out clusters over their zones, one member after the other, and pairs
    that had both before. Other load balancers stay where they are.
    """

    ARGUMENT = _NAME
    DRY_RUN = 'whether it is drained'
    STATE = 'drained'
    REPOSITORY = drain_repo

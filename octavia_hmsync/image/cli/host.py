# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync host list, host drain."""

import collections

from octavia_hmsync.cli import base
from octavia_hmsync.image.cli import rollout_start
from octavia_hmsync.image.cli import selection


class ListHosts(base.ListCommand):
    """List the compute hosts that amphorae are on.

    only_here counts load balancers that no other host serves: a host that is
    lost takes these down. A host that takes no new instances is disabled.
    """

    COLUMNS = ('name', 'status', 'amphorae', 'loadbalancers', 'only_here')
    LONG_COLUMNS = ('zone', 'reason')
    METAVAR = '<host>'
    WITH_OCTAVIA = True

    def read(self, conf, engine, _parsed_args):
        from octavia_hmsync import compute
        from octavia_hmsync.image import causes
        from octavia_hmsync.image import inventory

        load_balancers = inventory.Inventory(conf, engine).get_page(
            with_places=True)
        source = compute.connect(conf)
        hosts = source.list_hosts()
        places = source.get_hosts()
        counts: collections.Counter = collections.Counter()
        served: dict[str, set[str]] = collections.defaultdict(set)
        alone: collections.Counter = collections.Counter()
        for load_balancer in load_balancers:
            on = {places.get(amphora.compute_id)
                  for amphora in load_balancer.amphorae} - {None}
            counts.update(places.get(amphora.compute_id)
                          for amphora in load_balancer.amphorae)
            for host in on:
                served[host].add(load_balancer.id)
                alone[host] += causes.find_without_second(load_balancer, host,
                                                          places)
        return [(host.name, _describe(host), counts[host.name],
                 len(served[host.name]), alone[host.name], host.zone,
                 host.reason)
                for host in sorted(hosts, key=lambda each: each.name)]


def _describe(host):
    return ('DOWN' if not host.is_up else
            'ENABLED' if host.is_enabled else 'DISABLED')


class DrainHost(rollout_start.Starter):
    """Have all amphorae leave a compute host, make before break.

    This is a rollout of the load balancers with an amphora there, with the
    settings that "image rollout start" has. The host must take no new
    instances: see "openstack compute service set --disable". A new amphora
    that comes to this host all the same is not taken. What is left out, and
    why, --dry-run tells.
    """

    ARGUMENT = ('host', 'its name, as "octavia-hmsync host list" has it')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        selection.add_only(parser)
        return parser

    def _read_cause(self, _conf, _engine, parsed_args):
        from octavia_hmsync.image import causes

        return causes.Cause(causes.Kind.HOST, parsed_args.host)

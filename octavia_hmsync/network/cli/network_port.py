# SPDX-License-Identifier: Apache-2.0

"""Commands on the ports of nodes in the management network."""

from cliff import command

from octavia_hmsync import addresses as addr
from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import member as mem


def _add_host(parser):
    parser.add_argument(
        'host', nargs='?', metavar='<health-manager>',
        help='[DEFAULT] host of the health manager (default: that of this '
             'octavia.conf)')


class _PortMixin(base.DatabaseMixin):
    """For commands that ask Neutron for ports."""

    def open_all(self):
        """Return (conf, engine, port.NodePorts, port_keeper.PortKeeper)."""
        from octavia_hmsync import cloud
        from octavia_hmsync.network import port as node_port
        from octavia_hmsync.network import port_keeper

        conf, engine = self.open_database(with_octavia=True)
        ids = port_keeper.get_ids(conf, engine)
        ports = node_port.NodePorts(conf, cloud.connect(conf), ids)
        return conf, engine, ports, port_keeper.PortKeeper(
            conf, engine, ports)

    def get_statuses(self, conf, engine):
        """Return the status of each health manager, by host."""
        return {m.host: mem.effective_status(
            m.status, m.keepalive_age, conf.hmsync.offline_after)
            for m in hm_repo.get_all(engine)}


class _PortCommand(_PortMixin, base.Change, command.Command):
    """For commands that change something."""

    DRY_RUN = 'what would be done'

    def tell(self, changes, dry_run):
        """Report what was changed, or would be."""
        for change in changes:
            self.say(f'Would {change}.' if dry_run else
                     f'{change[0].upper()}{change[1:]}.')


class EnsurePort(_PortCommand):
    """Make the Neutron port of a node, or repair it; plug nothing.

    For a deployment tool that plugs ports by itself. "network port plug"
    does both.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        _add_host(parser)
        parser.add_argument(
            '--binding-host', metavar='<node>',
            help='the node as its agent gives it to Neutron (default: '
                 '[hmsync_network] binding_host for this host, the '
                 'health manager for another one)')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.network import node

        conf, _engine, _ports, keeper = self.open_all()
        host = parsed_args.host or conf.host
        binding_host = parsed_args.binding_host or (
            node.get_binding_host(conf) if host == conf.host else host)
        ensured = keeper.ensure(host, binding_host,
                                dry_run=parsed_args.dry_run)
        self.tell(ensured.changes, parsed_args.dry_run)
        if ensured.port:
            self.say(f'The port {ensured.port.id} of {host} has '
                     f'{addr.join_list(ensured.port.ip_addresses)}.')


class PlugPort(_PortCommand):
    """Make this node's port, plug it in Open vSwitch, wait until it works.

    Again does no harm: run it at each boot, before octavia-health-manager
    and octavia-worker, and from time to time. Needs root, the network of the
    host, and ovs-vsctl.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--timeout', type=base.positive_seconds, default=60,
            metavar='<seconds>',
            help='how long to wait for Neutron to call the port ACTIVE '
                 '(default: 60)')
        return parser

    def take_action(self, parsed_args):
        from octavia_hmsync.network import node

        conf, engine, ports, keeper = self.open_all()
        port, changes = node.Node(conf, engine, ports, keeper).plug(
            parsed_args.timeout, parsed_args.dry_run)
        self.tell(changes, parsed_args.dry_run)
        if port:
            self.say(f'The port {port.id} of {conf.host} is {port.status} '
                     f'with {addr.join_list(port.ip_addresses)}.')


class UnplugPort(_PortCommand):
    """Delete the interface of this node's port; the port itself stays.

    With the port the node keeps its address. "network port delete" gives it
    back.
    """

    def take_action(self, parsed_args):
        from octavia_hmsync.network import node

        conf, engine, ports, keeper = self.open_all()
        interface = conf.hmsync.address_interface
        was_there = node.Node(conf, engine, ports, keeper).unplug(
            parsed_args.dry_run)
        if not was_there:
            self.say(f'The interface {interface} is not plugged.')
        elif parsed_args.dry_run:
            self.tell([f'delete the interface {interface}'], True)
        else:
            self.say(f'The interface {interface} is deleted. Its port stays.')


class ShowPort(_PortMixin, base.ShowOne):
    """Show the port of a node; of this one with its interface."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        _add_host(parser)
        return parser

    def take_action(self, parsed_args):
        conf, engine, ports, _keeper = self.open_all()
        host = parsed_args.host or conf.host
        found = ports.find(host)
        if found is None:
            raise exceptions.NotPossible(
                f'There is no port of {host}: run "octavia-hmsync network '
                f'port plug" there.')
        known = port_repo.get(engine, host)
        columns = ('host', 'id', 'status', 'mac_address', 'ip_address',
                   'binding_host', 'vif_type', 'health_manager', 'repairs')
        values = (host, found.id, found.status, found.mac,
                  formatters.List(found.ip_addresses), found.binding_host,
                  found.vif_type, self.get_statuses(conf, engine).get(host),
                  known.repairs if known else 0)
        if host != conf.host:
            return columns, values
        return ((*columns, 'interface_port', 'interface_mac_address',
                 'interface_mtu', 'interface_ip_address'),
                (*values, *self._look_at_interface(conf)))

    def _look_at_interface(self, conf):
        from octavia_hmsync.network import link
        from octavia_hmsync.network import node

        name = conf.hmsync.address_interface
        try:
            found = node.make_vswitch(conf).get(name)
        except exceptions.VswitchUnavailable as e:
            self.app.stderr.write(f'{e}\n')
            found = None
        here = link.get(name)
        return (*((found.port_id, found.mac, found.mtu) if found
                  else (None, None, None)),
                formatters.List(here[1]) if here else None)


class ListPorts(_PortMixin, base.ListCommand):
    """List the ports of all nodes."""

    COLUMNS = ('host', 'ip_address', 'status', 'health_manager')
    LONG_COLUMNS = ('id', 'mac_address', 'binding_host', 'repairs')
    METAVAR = '<health-manager>'

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        if network_repo.get_ids(
                engine, conf[network_conf.GROUP].network_name) is None:
            # Nor is there a port: Neutron need not be asked.
            return self.choose(parsed_args, [])
        conf, engine, ports, _keeper = self.open_all()
        known = {row.host: row for row in port_repo.get_all(engine)}
        statuses = self.get_statuses(conf, engine)
        rows = [(p.host, formatters.List(p.ip_addresses), p.status,
                 statuses.get(p.host), p.id, p.mac, p.binding_host,
                 known[p.host].repairs if p.host in known else 0)
                for p in ports.get_all()]
        return self.choose(parsed_args, base.take_page(rows, parsed_args))


class DeletePort(_PortCommand):
    """Delete the port of a node whose health manager is gone.

    Its address goes back to Neutron. That is refused as long as an amphora
    may send there; housekeeping deletes the port when none does any more.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='<health-manager>',
                            help='[DEFAULT] host of the health manager')
        parser.add_argument(
            '--force', action='store_true',
            help='delete it though amphorae may send there: their heartbeats '
                 'are lost, or arrive at the next owner of the address')
        return parser

    def take_action(self, parsed_args):
        conf, engine, _ports, keeper = self.open_all()
        host = parsed_args.host
        found = keeper.get_all_of(host)
        known = port_repo.get(engine, host)
        if not found and known is None:
            raise exceptions.NotPossible(
                f'There is no port of {host} in the management network: run '
                f'"octavia-hmsync network port plug" on that node.')
        # A port that is gone is made again as long as it is remembered.
        ip_addresses = tuple(dict.fromkeys(
            ip for port in (*found, known) if port
            for ip in port.ip_addresses))

        def check():
            self._check(conf, engine, host, parsed_args.force, ip_addresses)
            return True

        check()
        if parsed_args.dry_run:
            self.tell([f'delete the port {p.id} of {host}' for p in found] or
                      [f'forget the port of {host}'], True)
            return
        # Check again: this may have waited for another process.
        for port_id in keeper.delete(host, check):
            self.say(f'The port {port_id} of {host} is deleted.')
        if not found:
            self.say(f'The port of {host} was gone already, and is not made '
                     f'again.')

    def _check(self, conf, engine, host, force, ip_addresses):
        from octavia_hmsync.network import port_retention

        if self.get_statuses(conf, engine).get(
                host, mem.OFFLINE) != mem.OFFLINE:
            raise exceptions.NotPossible(
                f'Health manager {host} is alive and uses the port: stop '
                f'octavia-health-manager there first.')
        if force:
            return
        if port_retention.is_published(conf, engine, ip_addresses):
            raise exceptions.NotPossible(
                f'The list of all amphorae has '
                f'{addr.join_list(ip_addresses)}: run "octavia-hmsync health '
                f'manager delete {host}" first, or wait for removal_delay.')
        senders = port_retention.get_senders(engine, ip_addresses)
        if senders:
            raise exceptions.NotPossible(
                f'{base.count(len(senders), "amphora", "amphorae")} may send '
                f'to '
                f'{addr.join_list(ip_addresses)}: '
                f'{", ".join(senders)}. See "octavia-hmsync amphora list" '
                f'for what keeps them, or use --force.')

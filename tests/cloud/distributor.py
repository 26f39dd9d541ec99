# SPDX-License-Identifier: Apache-2.0

"""A real octavia-hmsync-distributor."""

import os
import signal

from octavia_hmsync.distributor import client
from octavia_hmsync import exceptions
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import waiting


class Distributor(process.ChildProcess):
    """The process on a network node.

    start(), stop(), kill_tree(), pause() and resume() are those of a child
    process; what it remembers survives them.

    Without an Open vSwitch it has a data plane that forwards nothing
    (site/hmsync_tests_distributor.py): files in .vswitch_directory, which
    fail(), slow_down() and forget_flows() act on.

    :param host: name of the node, as Neutron knows it
    :param address: where it listens, and what its certificate is for
    :param port: so; one is free in each namespace
    :param certificates: a certificates.Certificates; controllers with its
                         client certificate are let in
    :param directory: working directory; one of its own is made in it
    :param log_directory: where its output goes
    :param vswitch: an openvswitch.OpenVswitch, for one that forwards
    :param namespace: the openvswitch.Namespace that it runs in
    :param options: more of [hmsync_distributor]
    """

    def __init__(self, host, address, port, certificates, directory,
                 log_directory, vswitch=None, namespace=None, options=None):
        self.host = host
        self.address = address
        self.port = port
        self.certificates = certificates
        self.directory = os.path.join(directory, f'distributor-{host}')
        self.state_path = os.path.join(self.directory, 'state')
        self.conf_path = os.path.join(self.directory, 'distributor.conf')
        self.vswitch_directory = (vswitch.directory if vswitch else
                                  os.path.join(self.directory, 'vswitch'))
        self.options = {
            'host': host, 'bind_host': address, 'bind_port': port,
            'server_cert': certificates.server_path(address),
            'client_ca': certificates.client_authority.certificate_path,
            'state_path': self.state_path, 'restore_interval': 1,
            'backend': 'openvswitch' if vswitch else 'hmsync_tests',
            'openvswitch_rundir': self.vswitch_directory,
            'datapath_type': 'netdev'}
        if vswitch:
            self.options.update(ovsdb_connection=vswitch.connection,
                                integration_bridge=vswitch.bridge)
        self.options.update(options or {})
        self._namespace = namespace
        command = [process.program('octavia-hmsync-distributor'),
                   '--config-file', self.conf_path]
        super().__init__(
            f'distributor-{host}',
            namespace.wrap(command) if namespace else command, log_directory,
            env=process.environment(self.directory), cwd=directory)

    def _setUp(self):
        os.makedirs(self.directory)
        self.write_conf()
        super()._setUp()

    def write_conf(self):
        """Write .options to its file; they count from the next start."""
        octavia_conf.write(self.conf_path, {
            'DEFAULT': {'debug': True},
            'hmsync_distributor': self.options})

    @property
    def url(self):
        return client.check_url(
            f'https://[{self.address}]:{self.port}' if ':' in self.address
            else f'https://{self.address}:{self.port}')

    def is_ready(self):
        """Whether it serves, and has put back what it remembers."""
        try:
            status = self.ask('get_status')
        except exceptions.DistributorUnreachable:
            return False
        return (status['status'] == 'ONLINE' and
                status['in_force'] == status['vips'])

    def make_client(self, **kwargs):
        """A client of its API, as controllers have."""
        context = client.create_context(
            self.certificates.server_authority.certificate_path,
            self.certificates.client_path)
        return client.Client(self.url, context, **kwargs)

    def ask(self, method, *args, **kwargs):
        """Call a method of a client, in the namespace that it runs in."""
        # Two processors, and others who use them.
        function = getattr(
            self.make_client(connect_timeout=60, timeout=60), method)
        if self._namespace:
            return self._namespace.call(function, *args, **kwargs)
        return function(*args, **kwargs)

    def reload_certificates(self):
        """Have it read its certificates anew."""
        self.signal(signal.SIGHUP)

    # Without an Open vSwitch:

    def fail(self, method, error):
        """Have calls of a method of its data plane fail; None ends it."""
        self._order(f'fail-{method}', error)

    def slow_down(self, method, seconds):
        """Have calls of a method take longer; None ends it."""
        self._order(f'slow-{method}', seconds and str(seconds))

    def _order(self, name, text):
        path = os.path.join(self.vswitch_directory, name)
        if text is None:
            os.unlink(path)
            return
        os.makedirs(self.vswitch_directory, exist_ok=True)
        # As a whole: it is read at any time.
        with open(f'{path}.new', 'w') as order:
            order.write(text)
        os.rename(f'{path}.new', path)

    def forget_flows(self):
        """What is left after a restart of ovs-vswitchd: nothing."""
        for name in os.listdir(self.vswitch_directory):
            if name.startswith('vip-'):
                os.unlink(os.path.join(self.vswitch_directory, name))

    def list_forwarded(self):
        """Ids of the VIPs that its data plane has something of."""
        if not os.path.isdir(self.vswitch_directory):
            return []
        return sorted(name.removeprefix('vip-')
                      for name in os.listdir(self.vswitch_directory)
                      if name.startswith('vip-'))

    def read_calls(self):
        """All calls of its data plane: 'apply ID', 'change ID', ..."""
        try:
            with open(os.path.join(self.vswitch_directory, 'calls')) as calls:
                return calls.read().splitlines()
        except FileNotFoundError:
            return []

    def wait_until_forwarded(self, *vip_ids):
        """Wait until its data plane has exactly these."""
        waiting.wait_for(
            lambda: self.list_forwarded() == sorted(vip_ids),
            f'sign of {vip_ids} in the data plane of {self.host}',
            processes=[self])

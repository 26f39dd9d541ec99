# SPDX-License-Identifier: Apache-2.0

"""Starts a fleet, and talks to it."""

import json
import os
import socket
import sys

from tests.cloud import process

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


class Fleet(process.ChildProcess):
    """A fleet that serves once its set-up is done.

    :param amphorae: list of dicts of id, lb_network_ip, listener_id and
                     controller_ip_port_list, see the package
    :param certificates: a tests.cloud.certificates.Certificates
    :param directory: for its configuration file and its socket; one fleet
                      each
    :param heartbeat_interval: 0: no heartbeats
    :param prepare: whether to make all certificates before it serves
    :param timeout: seconds that it may take until it serves
    """

    def __init__(self, amphorae, certificates, heartbeat_key, directory,
                 heartbeat_interval=1, port=9443, ailments=None, delay=5,
                 prepare=True, log_directory=None, timeout=120):
        self.conf_path = os.path.join(directory, 'fleet.json')
        self.socket_path = os.path.join(directory, 'fleet.sock')
        self._timeout = timeout
        self._conf = {
            'amphorae': amphorae,
            'port': port,
            'heartbeat_key': heartbeat_key,
            'heartbeat_interval': heartbeat_interval,
            'server_ca': certificates.server_authority.certificate_path,
            'server_ca_key': certificates.server_authority.key_path,
            'client_ca': certificates.client_authority.certificate_path,
            'control_socket': self.socket_path,
            'ailments': ailments or {},
            'delay': delay,
            'prepare': prepare,
        }
        super().__init__(
            'fleet', [sys.executable, '-m', 'tests.fleet', '--config',
                      self.conf_path],
            log_directory or directory, env=process.environment(directory),
            cwd=TOP)

    def _setUp(self):
        # It holds the heartbeat key.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(self.conf_path, flags, 0o600), 'w') as conf:
            json.dump(self._conf, conf)
        super()._setUp()
        self.wait_until_ready(self._timeout)

    def is_ready(self):
        try:
            return bool(self.state())
        except OSError:
            return False

    def _ask(self, op, **arguments):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self.socket_path)
            with sock.makefile('rw') as stream:
                stream.write(json.dumps({'op': op, **arguments}) + '\n')
                stream.flush()
                answer = json.loads(stream.readline())
        if 'error' in answer:
            raise ValueError(answer['error'])
        return answer

    def state(self):
        """What it counts, by name; see the package."""
        return self._ask('state')

    def amphorae(self):
        """What it counts of each amphora, by id; see the package."""
        return self._ask('amphorae')

    def set_ailment(self, ids, ailment):
        """Make amphorae ail; None makes them well."""
        self._ask('set', ids=list(ids), ailment=ailment)

    def reset(self):
        """Count from zero again."""
        self._ask('reset')

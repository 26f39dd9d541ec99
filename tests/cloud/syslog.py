# SPDX-License-Identifier: Apache-2.0

"""The syslog socket that the amphora agent insists on."""

import os
import socket
import threading

import fixtures


class SyslogSocket(fixtures.Fixture):
    """Takes, and drops, what agents send to run/rsyslog/octavia/log.

    gunicorn reads the address in the agent as a path relative to the working
    directory, which is / in an amphora. An agent run in another directory
    has so a socket of its own, and nothing on the machine is touched.

    :param directory: the working directory of the agents
    """

    PATH = 'run/rsyslog/octavia'

    def __init__(self, directory):
        super().__init__()
        self._directory = os.path.join(directory, self.PATH)

    def _setUp(self):
        os.makedirs(self._directory, exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self._socket.close)
        # By descriptor: the path may be longer than a socket address.
        descriptor = os.open(self._directory, os.O_PATH)
        try:
            self._socket.bind(f'/proc/self/fd/{descriptor}/log')
        finally:
            os.close(descriptor)
        # Somebody has to read: a full queue would block the agents.
        thread = threading.Thread(target=self._drain, name='syslog',
                                  daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._socket.shutdown, socket.SHUT_RDWR)

    def _drain(self):
        while True:
            try:
                if not self._socket.recv(65536):
                    return
            except OSError:
                return

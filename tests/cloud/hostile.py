# SPDX-License-Identifier: Apache-2.0

"""An amphora in which somebody else has root."""

import configparser
import re
import socket
import threading
import time

from octavia.amphorae.backends.health_daemon import status_message

from tests.cloud import ailing


class HostileAmphora(ailing.AilingAmphora):
    """Takes each list, answers 202, and falls silent with some.

    :param cloud: the Cloud whose amphora it is
    :param addresses: where it sends heartbeats at first
    :param disliked: an address; with a list that holds it, it is silent for
                     ``silence`` seconds, and resumes
    """

    def __init__(self, cloud, amphora_id, lb_network_ip, addresses, disliked,
                 silence, port=9443, interval=1.0):
        super().__init__(amphora_id, lb_network_ip, cloud.certificates,
                         ailing.HEALTHY, port=port)
        self.addresses = list(addresses)
        self.silences = 0
        self._key = cloud.heartbeat_key
        self._disliked = disliked
        self._silence = silence
        self._silent_until = 0.0
        self._interval = interval

    def _setUp(self):
        super()._setUp()
        thread = threading.Thread(target=self._send, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._ended.set)

    def _read_request(self, tls, body=True):
        data = b''
        while b'\r\n\r\n' not in data:
            data += tls.recv(1 << 16)
        head, _, taken = data.partition(b'\r\n\r\n')
        length = int(re.search(rb'content-length: *(\d+)', head,
                               re.IGNORECASE)[1])
        while len(taken) < length:
            taken += tls.recv(1 << 16)
        self._take(taken.decode())
        return head.split(b'\r\n')[0].decode()

    def _take(self, body):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read_string(body)
        value = parser.get('health_manager', 'controller_ip_port_list',
                           fallback='')
        self.addresses = [a.strip() for a in value.split(',') if a.strip()]
        if self._disliked in self.addresses and not self.silences:
            self.silences += 1
            self._silent_until = time.monotonic() + self._silence

    def _send(self):
        number = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((self.lb_network_ip, 0))
            while not self._ended.wait(self._interval):
                if time.monotonic() < self._silent_until:
                    continue
                number += 1
                host, port = self.addresses[
                    number % len(self.addresses)].rsplit(':', 1)
                sock.sendto(status_message.wrap_envelope(
                    {'id': self.amphora_id, 'seq': number, 'listeners': {},
                     'pools': {}, 'ver': 3}, self._key), (host, int(port)))

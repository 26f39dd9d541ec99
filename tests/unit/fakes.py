# SPDX-License-Identifier: Apache-2.0

"""Fakes with behaviour."""

import threading

from octavia_hmsync import compat

DRIVER = 'fake_driver'


class AmphoraDriver:
    """An amphora driver under which amphorae can be ailing.

    .files holds what each amphora was sent; .broken the ids of those that
    fail, .old of those that cannot be reconfigured; .gate, when set, has to
    be opened before any upload ends, or any to those in .hanging.
    """

    def __init__(self):
        self.files = {}
        self.uploads = []
        self.broken = set()
        self.old = set()
        self.gate = None
        self.hanging = None

    def update_amphora_agent_config(self, amphora, agent_config):
        self.uploads.append(amphora.id)
        if self.gate is not None and (self.hanging is None or
                                      amphora.id in self.hanging):
            self.gate.wait(60)
        if amphora.id in self.broken:
            raise RuntimeError('broken')
        if amphora.id in self.old:
            raise NotImplementedError()
        self.files[amphora.id] = agent_config

    def close_gate(self):
        self.gate = threading.Event()

    def lists(self):
        """The controller_ip_port_list that each amphora has."""
        return {amphora_id: next(
            line.partition(' = ')[2] for line in text.splitlines()
            if line.startswith('controller_ip_port_list'))
            for amphora_id, text in self.files.items()}


class Notifier:
    """Takes notifications in place of a notifications.outbox.Outbox."""

    def __init__(self, is_on=True):
        self.is_on = is_on
        self.sent = []

    def send(self, payload):
        self.sent.append(payload)

    def take(self):
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent


def install_driver(test):
    """Have the plugin load one AmphoraDriver for all."""
    driver = AmphoraDriver()
    test.patch(compat, 'load_amphora_driver', lambda name: driver)
    return driver

# SPDX-License-Identifier: Apache-2.0

"""What one simulated amphora knows and counts."""

from tests.cloud import ailing

# Takes an upload, answers 202, and goes on with what it booted with, as
# images from before the fix of LP 2121691 do.
OLD_IMAGE = 'old image'
# Sends no heartbeats.
MUTE = 'mute'
# With these, the agent answers at once.
ANSWERING = (None, ailing.HEALTHY, ailing.NOT_FOUND, ailing.SERVER_ERROR,
             OLD_IMAGE, MUTE)
AILMENTS = (*ANSWERING, ailing.SILENT, ailing.REFUSES, ailing.BLACK_HOLE,
            ailing.HANGS, ailing.HANGS_IN_ANSWER, ailing.RESETS,
            ailing.RESETS_IN_ANSWER, ailing.IMPOSTOR, ailing.SLOW)


class Amphora:
    """State of an amphora; the server and the sender both work on it.

    .running is the configuration that its sender uses. .taken is one that
    the agent has written to its file and that the sender has not read yet.
    """

    __slots__ = ('id', 'lb_network_ip', 'listener_id', 'dead_listeners',
                 'ailment', 'running', 'taken', 'sequence', 'turn', 'uploads',
                 'last_upload', 'adopted_at', 'aborted', 'mac', 'addresses',
                 'files', '_proved')

    def __init__(self, amphora_id, lb_network_ip, running, listener_id=None,
                 ailment=None):
        self.id = amphora_id
        self.lb_network_ip = lb_network_ip
        self.listener_id = listener_id
        # That it is configured with, and does not serve.
        self.dead_listeners = frozenset()
        self.ail(ailment)
        self.running = running
        self.taken = None
        # Of the next heartbeat, and of the address that is to get it.
        self.sequence = 0
        self.turn = 0
        # Of the interface of the VIP, once there is one.
        self.mac = None
        self.addresses = frozenset()
        # What it was given beside its configuration, by path.
        self.files = {}
        # A boot configuration is not an adopted one.
        self._proved = True
        self.reset()

    def ail(self, ailment):
        """Have an ailment; the caller then opens its agent anew.

        :raises ValueError: if there is no such ailment.
        """
        if ailment not in AILMENTS:
            raise ValueError(f'no such ailment: {ailment}')
        self.ailment = ailment

    def reset(self):
        """Count from zero again."""
        self.uploads = 0
        self.aborted = 0
        self.last_upload = None
        self.adopted_at = None

    def take(self, configuration):
        """Take an uploaded configuration."""
        self.taken = configuration
        self.adopted_at = None
        self._proved = False

    def reload(self):
        """Use what was taken, as the sender does after each heartbeat."""
        if self.taken is None or self.ailment == OLD_IMAGE:
            return
        if (self.taken.controller_ip_port_list !=
                self.running.controller_ip_port_list):
            self.turn = 0
        self.running = self.taken
        self.taken = None

    def prove(self, now):
        """Note a heartbeat that was sent with the running configuration.

        :returns: whether it is the first one since an upload.
        """
        if self._proved or self.taken is not None:
            return False
        self._proved = True
        self.adopted_at = now
        return True

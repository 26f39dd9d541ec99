# SPDX-License-Identifier: Apache-2.0

"""Somebody with root in a member of a cluster, who sends what he likes."""

import json
import sys

from tests.cloud import process

# Frames of an interface, or datagrams to addresses, again and again.
_SCRIPT = """
import json, socket, sys, time

order = json.loads(sys.argv[1])
data = [bytes.fromhex(each) for each in order['data']]
if 'interface' in order:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    frames.bind((order['interface'], 0))
    send = frames.send
else:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    def send(each):
        for address in order['addresses']:
            datagrams.sendto(each, tuple(address))
while True:
    for each in data:
        send(each)
    time.sleep(order['interval'])
"""


class HostileMember(process.ChildProcess):
    """Sends from now on, until stop().

    :param wrap: makes what runs a command where he is, of its arguments.
    :param directory: for the log.
    :param data: a list of bytes, each sent in turn.
    :param interval: seconds before all is sent again.
    :param where: interface, a name, or addresses, a list of [host, port].
    """

    def __init__(self, name, wrap, directory, data, interval=0.2, **where):
        super().__init__(name, wrap([
            sys.executable, '-ISc', _SCRIPT, json.dumps({
                'data': [each.hex() for each in data], 'interval': interval,
                **where})]), directory, env=process.environment(directory))

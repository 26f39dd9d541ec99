# SPDX-License-Identifier: Apache-2.0

"""Runs a fleet; see the package for its configuration file."""

import argparse
import asyncio
import contextlib
import gc
import json
import resource
import signal

from tests.fleet import agent
from tests.fleet import amphora
from tests.fleet import certificates
from tests.fleet import configuration
from tests.fleet import control
from tests.fleet import heartbeats


def _make_amphorae(conf):
    ailments = conf.get('ailments', {})
    return {entry['id']: amphora.Amphora(
        entry['id'], entry['lb_network_ip'],
        configuration.Configuration(
            tuple(entry['controller_ip_port_list']),
            conf['heartbeat_interval'], conf['heartbeat_key'], entry['id']),
        entry.get('listener_id'), ailments.get(entry['id']))
        for entry in conf['amphorae']}


async def run(conf):
    """Play the fleet for ever."""
    amphorae = _make_amphorae(conf)
    contexts = certificates.Contexts(
        conf['server_ca'], conf['server_ca_key'], conf['client_ca'])
    if conf.get('prepare', True):
        for amphora_id in amphorae:
            contexts.get(amphora_id)
    server = agent.Server(contexts, conf.get('port', 9443),
                          conf.get('delay', 5))
    for member in amphorae.values():
        server.open(member)
    sender = heartbeats.Sender(list(amphorae.values()))
    # What is here by now stays: it need not be searched for garbage.
    gc.freeze()
    async with asyncio.TaskGroup() as group:
        group.create_task(control.Control(amphorae, server, sender).serve(
            conf['control_socket']))
        if conf['heartbeat_interval']:
            group.create_task(sender.run())


async def run_until_terminated(conf):
    """Play the fleet until SIGTERM comes or a callback fails."""
    loop = asyncio.get_running_loop()
    playing = asyncio.create_task(run(conf))
    loop.add_signal_handler(signal.SIGTERM, playing.cancel)

    def give_up(loop, context):
        loop.default_exception_handler(context)
        playing.cancel()

    # A broken fleet must not pass for a slow one.
    loop.set_exception_handler(give_up)
    with contextlib.suppress(asyncio.CancelledError):
        await playing


def main():
    parser = argparse.ArgumentParser(prog='python -m tests.fleet',
                                     description=__doc__)
    parser.add_argument('--config', required=True, metavar='FILE')
    with open(parser.parse_args().config) as conf_file:
        conf = json.load(conf_file)
    # Each amphora has a socket.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(run_until_terminated(conf))


if __name__ == '__main__':
    main()

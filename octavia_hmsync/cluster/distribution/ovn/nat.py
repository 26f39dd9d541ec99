# SPDX-License-Identifier: Apache-2.0

"""Finds distributed floating IPs, which OVN translates at their port.

Neutron makes them with ``[ovn] enable_distributed_floating_ip``, and its API
does not show it. The northbound database is asked once, without a copy of it:
octavia-api uses this, and the plugin runs no threads there.
"""

import errno
import os
import time

from ovs import jsonrpc
from ovs import poller
from ovs import stream

from octavia_hmsync.cluster.distribution.ovn import connections

_QUESTION = {
    'op': 'select', 'table': 'NAT', 'columns': ['logical_port', 'external_ip'],
    'where': [['type', '==', 'dnat_and_snat'],
              ['external_mac', '!=', ['set', []]]]}


def find_distributed(conf, timeout=None):
    """Return the distributed floating IPs.

    :param timeout: seconds; connections.TIMEOUT by default.
    :returns: {id of a port: its floating IP}.
    :raises InvalidConfiguration: if certificates cannot be used.
    :raises DistributorUnreachable: saying what is wrong.
    """
    remotes = connections.prepare(conf, connections.NORTHBOUND)
    deadline = time.monotonic() + (timeout or connections.TIMEOUT)
    error: str | Exception = 'it names no database'
    # Any member of the database answers reads.
    for remote in remotes:
        try:
            return _read(_ask(remote, deadline))
        except (OSError, ValueError) as e:
            error = e
    raise connections.unreachable(connections.NORTHBOUND, ','.join(remotes),
                                  error)


def _ask(remote, deadline):
    """Return the answer of one database to _QUESTION; raise OSError."""
    code, made = stream.Stream.open_block(
        stream.Stream.open(remote), _get_rest(deadline))
    if code:
        raise OSError(code, os.strerror(code))
    connection = jsonrpc.Connection(made)
    try:
        request = jsonrpc.Message.create_request(
            'transact', [connections.NORTHBOUND, _QUESTION])
        code = connection.send(request)
        while not code:
            connection.run()
            code, reply = connection.recv()
            if code == errno.EAGAIN:
                code = _wait(connection, deadline)
            elif not code and reply.id == request.id:
                return reply.result
        raise OSError(code, 'the connection is lost' if code < 0
                      else os.strerror(code))
    finally:
        connection.close()


def _wait(connection, deadline):
    """Wait for an answer; return ETIMEDOUT when time is up, else 0."""
    rest = _get_rest(deadline)
    if not rest:
        return errno.ETIMEDOUT
    events = poller.Poller()
    connection.wait(events)
    connection.recv_wait(events)
    events.timer_wait(rest)
    events.block()
    return 0


def _get_rest(deadline):
    return max(0, int((deadline - time.monotonic()) * 1000))


def _read(result):
    """Read the answer of a database to _QUESTION. Pure.

    :returns: {id of a port: its floating IP}.
    :raises ValueError: with the answer, if it is an error.
    """
    answer = result[0] if result else {}
    if 'rows' not in answer:
        raise ValueError(answer.get('error') or f'it answers {result}')
    # An optional column is a set where it has no value.
    return {row['logical_port']: row['external_ip'] for row in answer['rows']
            if isinstance(row['logical_port'], str)}

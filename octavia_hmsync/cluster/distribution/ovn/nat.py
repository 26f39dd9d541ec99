# SPDX-License-Identifier: Apache-2.0

"""Which floating IPs OVN translates where a port is, and at no gateway.

Neutron does so with ``[ovn] enable_distributed_floating_ip``, and its API
does not tell. The northbound database is asked once, and nothing of it is
copied: octavia-api may ask, whose processes have no threads of ours.
"""

import errno
import os
import time

from oslo_config import cfg
from ovs import jsonrpc
from ovs import poller
from ovs import stream

from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.conf import cluster as cluster_conf

_OPTION = 'ovn_nb_connection'
_QUESTION = {
    'op': 'select', 'table': 'NAT', 'columns': ['logical_port', 'external_ip'],
    'where': [['type', '==', 'dnat_and_snat'],
              ['external_mac', '!=', ['set', []]]]}


def is_known(conf):
    """Tell whether the operator says where the northbound database is.

    :param conf: a parsed oslo.config object with our options registered.
    """
    found = conf.get_location(_OPTION, cluster_conf.GROUP)
    return (found is not None and
            found.location is not cfg.Locations.opt_default)


def find_distributed(conf, timeout=None):
    """Return the floating IPs that are translated where their port is.

    :param conf: a parsed oslo.config object with our options registered.
    :param timeout: seconds; ``ovn_timeout`` where None is given.
    :returns: {id of a port: its floating IP}.
    :raises InvalidConfiguration: if certificates cannot be used.
    :raises DistributorUnreachable: saying what is wrong.
    """
    opts = conf[cluster_conf.GROUP]
    remotes = opts[_OPTION]
    connections.use_certificates(opts, ','.join(remotes))
    deadline = time.monotonic() + (timeout or opts.ovn_timeout)
    error: str | Exception = 'it names no database'
    # Each member of the database can be read from.
    for remote in remotes:
        try:
            return _read(_ask(remote, deadline))
        except (OSError, ValueError) as e:
            error = e
    raise connections.unreachable(connections.NORTHBOUND, ','.join(remotes),
                                  error)


def _ask(remote, deadline):
    """Return what one member of the database answers to _QUESTION.

    :raises OSError: if it does not.
    """
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
    """Wait for what comes; returns a code of errno when time is up."""
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
    """Return how many milliseconds there are."""
    return max(0, int((deadline - time.monotonic()) * 1000))


def _read(result):
    """Read what a database answers to _QUESTION. Pure.

    :returns: {id of a port: its floating IP}.
    :raises ValueError: with what it said, if it has not answered.
    """
    answer = result[0] if result else {}
    if 'rows' not in answer:
        raise ValueError(answer.get('error') or f'it answers {result}')
    # An optional column is a set where it has no value.
    return {row['logical_port']: row['external_ip'] for row in answer['rows']
            if isinstance(row['logical_port'], str)}

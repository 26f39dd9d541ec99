# SPDX-License-Identifier: Apache-2.0

"""A connection to Open vSwitch's database that never hangs."""

import json
import socket
import threading
import time

from ovsdbapp.backend.ovs_idl import connection
from ovsdbapp.backend.ovs_idl import idlutils
from ovsdbapp.backend.ovs_idl import transaction
from ovsdbapp import exceptions as ovsdbapp_exceptions
from ovsdbapp.schema.open_vswitch import impl_idl

from octavia_hmsync import exceptions

_DATABASE = 'Open_vSwitch'
# What is read of it. Statistics, which change all the time, are not.
_COLUMNS = {
    'Open_vSwitch': ('bridges', 'cur_cfg', 'next_cfg', 'other_config',
                     'ovs_version'),
    'Bridge': ('name', 'ports', 'datapath_type', 'fail_mode', 'external_ids',
               'other_config', 'protocols', 'flow_tables'),
    'Flow_Table': ('name', 'flow_limit', 'overflow_policy'),
    'Port': ('name', 'interfaces'),
    'Interface': ('name', 'type', 'options', 'external_ids', 'ofport',
                  'ofport_request', 'error')}
_LARGEST_SCHEMA = 4 * 1024 * 1024


def connect(remote, timeout):
    """Connect to the database.

    :param remote: unix:PATH or tcp:IP:PORT.
    :param timeout: seconds, for this and for each transaction later.
    :returns: ovsdbapp's API of the schema Open_vSwitch.
    :raises VswitchUnavailable: saying what is wrong.
    """
    # ovsdbapp asks for the schema without a time limit.
    helper = idlutils.create_schema_helper(_fetch_schema(remote, timeout))
    for table, columns in _COLUMNS.items():
        helper.register_columns(table, list(columns))

    class Api(impl_idl.OvsdbIdl):
        # The library has one for each class.
        _ovsdb_connection = None

    try:
        return Api(connection.Connection(Idl(remote, helper), timeout))
    except Exception as e:  # Its own kind of each, or none.
        raise exceptions.VswitchUnavailable(
            _describe(remote, str(e) or type(e).__name__)) from e


class Idl(connection.OvsdbIdl):
    """A copy of the database that tells how far ovs-vswitchd has come."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._came = threading.Condition()
        self._done = 0

    def notify(self, event, row, updates=None):
        """Hear of a change; called by the library."""
        if row._table.name == 'Open_vSwitch':
            with self._came:
                self._done = row.cur_cfg
                self._came.notify_all()

    def wait_until_done(self, number, timeout):
        """Wait until ovs-vswitchd has done what it was told.

        :param number: of the configuration.
        :param timeout: seconds.
        :returns: False if it has not.
        """
        with self._came:
            return self._came.wait_for(lambda: self._done >= number, timeout)


class _Transaction(impl_idl.OvsVsctlTransaction):
    """Lets others go on while ovs-vswitchd does what it is told.

    It looks at all of its bridges for that, once for all that has come
    meanwhile. The library waits for it with its connection locked.
    """

    number = None

    def do_post_commit(self, txn):
        self.number = txn.get_increment_new_value()


def commit(api, commands):
    """Change the database, and wait until ovs-vswitchd follows.

    :raises Exception: the library's own kind of each, or none.
    """
    one = _Transaction(api, api.ovsdb_connection, check_error=True,
                       log_errors=False)
    deadline = time.monotonic() + one.timeout
    _run(one, commands)
    if one.number is not None and not api.idl.wait_until_done(
            one.number, deadline - time.monotonic()):
        raise ovsdbapp_exceptions.TimeoutException(
            commands=one.commands, timeout=one.timeout,
            cause='ovs-vswitchd has not done it')


def note(api, commands):
    """Change what does not concern ovs-vswitchd; see commit()."""
    _run(transaction.Transaction(api, api.ovsdb_connection, check_error=True,
                                 log_errors=False), commands)


def _run(one, commands):
    for command in commands:
        one.add(command)
    one.commit()


def _fetch_schema(remote, timeout):
    deadline = time.monotonic() + timeout
    try:
        with _open(remote, timeout) as one:
            one.sendall(json.dumps({
                'method': 'get_schema', 'params': [_DATABASE],
                'id': 0}).encode())
            answer = _receive(one, deadline)
    except (OSError, ValueError) as e:
        raise exceptions.VswitchUnavailable(
            _describe(remote, str(e) or type(e).__name__)) from e
    schema = answer.get('result')
    if not isinstance(schema, dict) or answer.get('error'):
        raise exceptions.VswitchUnavailable(
            _describe(remote, f'it has no database {_DATABASE}'))
    return schema


def _open(remote, timeout):
    kind, _, place = remote.partition(':')
    if kind == 'unix':
        one = socket.socket(socket.AF_UNIX)
        try:
            one.settimeout(timeout)
            one.connect(place)
        except BaseException:
            one.close()
            raise
        return one
    host, _, port = place.rpartition(':')
    if kind != 'tcp' or not port.isdigit():
        raise ValueError('it has to be unix:PATH or tcp:IP:PORT')
    return socket.create_connection((host.strip('[]'), int(port)), timeout)


def _receive(one, deadline):
    """Receive one JSON object, before a point in time."""
    data = b''
    while len(data) < _LARGEST_SCHEMA:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        one.settimeout(left)
        part = one.recv(65536)
        if not part:
            raise ValueError('it closed the connection')
        data += part
        if data.rstrip().endswith(b'}'):
            try:
                return json.loads(data)
            except ValueError:
                continue
    raise TimeoutError('no answer in time')


def _describe(remote, reason):
    return (f'ovsdb-server cannot be reached at {remote} ({reason}): start '
            f'Open vSwitch on this node, make its socket available here (in '
            f'a container, mount /run/openvswitch), or correct '
            f'[hmsync_distributor] ovsdb_connection.')

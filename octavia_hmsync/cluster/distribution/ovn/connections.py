# SPDX-License-Identifier: Apache-2.0

"""Connections to OVN's databases that never hang.

The library keeps a copy of the columns below, which the database updates.
"""

import os
import threading
import typing

from ovs import stream
from ovsdbapp import api as ovsdbapp_api
from ovsdbapp.backend import ovs_idl
from ovsdbapp.backend.ovs_idl import connection
from ovsdbapp.backend.ovs_idl import idlutils
from ovsdbapp import exceptions as ovsdbapp_exceptions

from octavia_hmsync.conf import ovn as ovn_conf
from octavia_hmsync import exceptions

NORTHBOUND = 'OVN_Northbound'
SOUTHBOUND = 'OVN_Southbound'
# Seconds that a change of a database may take.
TIMEOUT = 20

_TEXT: dict[str, typing.Any] = {'type': 'string'}
_TEXTS = {'type': {'key': 'string', 'min': 0, 'max': 'unlimited'}}
_MAP = {'type': {'key': 'string', 'value': 'string', 'min': 0,
                 'max': 'unlimited'}}
_NUMBER = {'type': 'integer'}
_OPTIONAL = {'type': {'key': 'string', 'min': 0, 'max': 1}}


def _references(table, kind='strong'):
    return {'type': {'key': {'type': 'uuid', 'refTable': table,
                             'refType': kind},
                     'min': 0, 'max': 'unlimited'}}


# Tables that any OVN has with which Neutron works. With a fixed schema no
# request for it is needed, for which ovsdbapp has no time-out.
_TABLES = {
    NORTHBOUND: {
        'Logical_Switch': {
            'name': _TEXT, 'ports': _references('Logical_Switch_Port'),
            'load_balancer': _references('Load_Balancer', 'weak')},
        'Logical_Switch_Port': {
            'name': _TEXT, 'type': _TEXT, 'options': _MAP,
            'addresses': _TEXTS, 'external_ids': _MAP},
        'Logical_Router': {
            'name': _TEXT, 'ports': _references('Logical_Router_Port'),
            'load_balancer': _references('Load_Balancer', 'weak')},
        'Logical_Router_Port': {'name': _TEXT, 'networks': _TEXTS},
        'Load_Balancer': {
            'name': _TEXT, 'vips': _MAP, 'options': _MAP,
            'selection_fields': _TEXTS, 'ip_port_mappings': _MAP,
            'health_check': _references('Load_Balancer_Health_Check'),
            'external_ids': _MAP},
        'Load_Balancer_Health_Check': {
            'vip': _TEXT, 'options': _MAP, 'external_ids': _MAP}},
    SOUTHBOUND: {
        'Service_Monitor': {
            'ip': _TEXT, 'port': _NUMBER, 'logical_port': _TEXT,
            'status': _OPTIONAL}}}
_VERSIONS = {NORTHBOUND: '5.0.0', SOUTHBOUND: '2.0.0'}
_NAMES = {NORTHBOUND: ovn_conf.NORTHBOUND, SOUTHBOUND: ovn_conf.SOUTHBOUND}
_ROOTS = ('Logical_Switch', 'Logical_Router', 'Load_Balancer',
          'Service_Monitor')

_lock = threading.Lock()
_connections: dict[tuple[int, str, str], typing.Any] = {}


class _TLSStream(stream.SSLStream):
    """A connection with the files of its own database.

    The library has one key for all connections of a process. In octavia-api
    ovn-octavia-provider sets that.
    """

    # (key, certificate, authorities) by the address after "ssl:".
    files: dict[str, tuple[str | None, ...]] = {}
    _lock = threading.Lock()
    _NAMES = ('_SSL_private_key_file', '_SSL_certificate_file',
              '_SSL_ca_cert_file')

    @staticmethod
    def _open(suffix, dscp):
        own = _TLSStream.files.get(suffix)
        # No other connection is opened meanwhile: it waits for no answer.
        with _TLSStream._lock:
            before = [getattr(stream.Stream, name)
                      for name in _TLSStream._NAMES]
            _TLSStream._set(own or before)
            try:
                return stream.SSLStream._open(suffix, dscp)
            finally:
                _TLSStream._set(before)

    @staticmethod
    def _set(files):
        for name, path in zip(_TLSStream._NAMES, files, strict=True):
            setattr(stream.Stream, name, path)


def connect(conf, database, timeout=None):
    """Return the connection of this process to a database; make it once.

    :param database: NORTHBOUND or SOUTHBOUND.
    :param timeout: seconds for each change by it; TIMEOUT by default.
    :returns: ovsdbapp's Backend.
    :raises InvalidConfiguration: if certificates cannot be used.
    :raises DistributorUnreachable: saying what is wrong.
    """
    remote = ','.join(prepare(conf, database))
    key = os.getpid(), database, remote
    with _lock:
        if key not in _connections:
            _connections[key] = _connect(database, remote, timeout or TIMEOUT)
        return _connections[key]


def disconnect():
    """End the connections of this process."""
    with _lock:
        for (pid, _, _), api in _connections.items():
            if pid == os.getpid():
                api.ovsdb_connection.stop(timeout=5)
        _connections.clear()


def _connect(database, remote, timeout):
    helper = idlutils.create_schema_helper({
        'name': database, 'version': _VERSIONS[database], 'tables': {
            table: {'columns': columns, 'isRoot': table in _ROOTS}
            for table, columns in _TABLES[database].items()}})
    helper.register_all()

    class Api(ovs_idl.Backend, ovsdbapp_api.API):
        schema = database
        lookup_table = {
            table: idlutils.RowLookup(table, 'name', None)
            for table, columns in _TABLES[database].items()
            if 'name' in columns}
        # The library has one connection for each class.
        _ovsdb_connection = None

    idl = None
    try:
        idl = connection.OvsdbIdl(remote, helper,
                                  leader_only=database == NORTHBOUND)
        api = Api(connection.Connection(idl, timeout), start=False)
        api.ovsdb_connection.start()
    except Exception as e:  # The libraries raise anything.
        if idl is not None:
            idl.close()
        raise unreachable(database, remote, 'no answer' if isinstance(
            e, ovsdbapp_exceptions.TimeoutException) else e) from e
    return api


def prepare(conf, database):
    """Return the addresses of a database, with whose files it is spoken to.

    :returns: a tuple of addresses, as OVN writes them.
    :raises InvalidConfiguration: if the files cannot be used.
    """
    found = ovn_conf.read(conf, _NAMES[database])
    for remote in found.remotes:
        method, _, address = remote.partition(':')
        if method != 'ssl':
            continue
        for name, path in found.files.items():
            if not path or not os.access(path, os.R_OK):
                raise exceptions.InvalidConfiguration(
                    f'[{ovn_conf.GROUP}] {name} = {path} cannot be read, and '
                    f'{remote} is spoken to with TLS: name the file that '
                    f'Neutron has for it.')
        _TLSStream.files[address] = tuple(found.files.values())
        stream.Stream.register_method('ssl', _TLSStream)
    return found.remotes


def unreachable(database, remote, error):
    """Return the exception for a database that does not answer.

    :param error: an exception or words.
    """
    reason = ' '.join(str(error).split()) or type(error).__name__
    return exceptions.DistributorUnreachable(
        f'{database} of OVN cannot be used at {remote} ({reason}): see '
        f'whether it runs, and whether '
        f'{ovn_conf.name_connection(_NAMES[database])} is what Neutron has.')


def get_remote(conf, database):
    """Return the address of a database, as OVN writes it."""
    return ','.join(ovn_conf.read(conf, _NAMES[database]).remotes)


def is_connected(api):
    """Tell whether there is a connection now.

    :param api: from connect().
    """
    # The library has no public attribute for it.
    session = getattr(api.idl, '_session', None)
    return session is not None and session.is_connected()

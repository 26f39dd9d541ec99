# SPDX-License-Identifier: Apache-2.0

"""TLS of the REST API: both sides show a certificate."""

import contextlib
import socket
import ssl
import threading
import time
import typing

from cryptography import x509
from oslo_config import cfg
from oslo_log import log as logging

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds that somebody may take to hear why he is not let in.
_LINGER = 1


class _Socket(ssl.SSLSocket):
    """Makes its handshake when it is first read.

    That is in a thread of its own, whichever gunicorn it is: up to 23 it
    wraps connections in the one thread that all of them wait for, and dies of
    an error there.
    """

    _is_ready = False

    def do_handshake(self, block: bool = False) -> None:
        peer = _name_peer(self)
        try:
            super().do_handshake(block)
        except OSError as e:
            # No reason for a traceback: anybody can connect.
            LOG.info('%s was not let in: %s', peer,
                     getattr(e, 'reason', None) or e)
            _hang_up(self)
            raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, str(e)) from e
        self._is_ready = True

    def read(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        if not self._is_ready:
            self.do_handshake()
        return super().read(*args, **kwargs)


class _Gone:
    """A connection that ended before anything was done with it."""

    def __init__(self, sock: typing.Any) -> None:
        self._sock = sock

    def __getattr__(self, name: str) -> typing.Any:
        return getattr(self._sock, name)

    def recv(self, *_args: typing.Any) -> bytes:
        raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, 'it was closed')

    def do_handshake(self) -> None:
        self.recv()

    def setblocking(self, _flag: bool) -> None:
        """Do nothing: it may have no descriptor any more."""


class _Context(ssl.SSLContext):
    """One that bears with nobody who hangs, nor with one who hangs up."""

    timeout: float

    def wrap_socket(self, sock: typing.Any, *args: typing.Any,
                    **kwargs: typing.Any) -> typing.Any:
        try:
            # Of the handshake as a whole, and of each read and write after it.
            sock.settimeout(self.timeout)
            return super().wrap_socket(
                sock, *args, **{**kwargs, 'do_handshake_on_connect': False})
        except OSError as e:
            LOG.debug('A connection was gone at once: %s', e)
            return _Gone(sock)


def _name_peer(sock: typing.Any) -> str:
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return 'Somebody'


def _hang_up(secure: ssl.SSLSocket) -> None:
    """Close a connection so that the other side gets to know why.

    With TLS 1.3 its request is on its way already; where that is not read,
    Linux takes back the alert that it has not read yet.
    """
    deadline = time.monotonic() + _LINGER
    with contextlib.suppress(OSError):
        socket.socket.shutdown(secure, socket.SHUT_WR)
        while time.monotonic() < deadline:
            socket.socket.settimeout(secure, _LINGER)
            if not socket.socket.recv(secure, 65536):
                break
    secure.close()


def create_context(conf: cfg.ConfigOpts) -> ssl.SSLContext:
    """Make the TLS context of the server.

    :param conf: a parsed oslo.config object.
    :raises InvalidConfiguration: if the certificates cannot be used.
    """
    options = conf[distributor_conf.GROUP]
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = _Socket
    context.timeout = options.request_timeout
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    for name, load in (
            ('server_cert', lambda path: context.load_cert_chain(
                path, options.server_key, password=_refuse)),
            ('client_ca', context.load_verify_locations)):
        try:
            load(options[name])
        except (OSError, ValueError) as e:
            raise exceptions.InvalidConfiguration(
                f'[{distributor_conf.GROUP}] {name} = {options[name]} cannot '
                f'be used: {e}') from e
    return context


def read_expiry(conf: cfg.ConfigOpts) -> dict[str, float]:
    """Return when the certificates of the server end.

    :param conf: a parsed oslo.config object.
    :returns: {option: seconds since the epoch}, of the first one in each file
              that ends; of what cannot be read nothing.
    """
    found = {}
    for name in ('server_cert', 'client_ca'):
        with contextlib.suppress(OSError, ValueError):
            with open(conf[distributor_conf.GROUP][name], 'rb') as file:
                found[name] = min(
                    one.not_valid_after_utc.timestamp() for one in
                    x509.load_pem_x509_certificates(file.read()))
    return found


def _refuse() -> typing.NoReturn:
    # Otherwise OpenSSL asks at the terminal.
    raise ValueError('its key has a password')


class Contexts:
    """The context of now.

    :param conf: a parsed oslo.config object.
    :ivar expiry: when the certificates that are in use end, see
                  read_expiry().
    :raises InvalidConfiguration: if the certificates cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._lock = threading.Lock()
        self._context = create_context(conf)
        self.expiry = read_expiry(conf)

    def get(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self._context

    def reload(self) -> None:
        """Read the certificates anew; where they are wrong, keep the old."""
        with self._lock:
            try:
                self._context = create_context(self._conf)
                self.expiry = read_expiry(self._conf)
            except exceptions.InvalidConfiguration as e:
                LOG.error('The certificates of before stay in use: %s', e)
            else:
                LOG.info('The certificates were read anew.')

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

# Seconds for a client to receive the reason of a refusal.
_LINGER = 1


class _Socket(ssl.SSLSocket):
    """Makes its handshake at the first read.

    With every release of gunicorn this happens in a thread of its own. Up to
    release 23 gunicorn wraps connections in the one thread that accepts them,
    and dies of an error there.
    """

    _is_ready = False

    def do_handshake(self, block: bool = False) -> None:
        peer = _name_peer(self)
        try:
            super().do_handshake(block)
        except OSError as e:
            # Without a traceback: any client can cause this.
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
    """A connection that ended before its handshake."""

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
    """A context that tolerates clients that hang, or hang up."""

    timeout: float

    def wrap_socket(self, sock: typing.Any, *args: typing.Any,
                    **kwargs: typing.Any) -> typing.Any:
        try:
            # For the whole handshake, and then for each read and write.
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
    """Close a connection so that the other side learns the reason.

    With TLS 1.3 the client has sent its request already. Unless that is read,
    Linux discards the alert that the client has not read yet.
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
    """Make the server's TLS context; raise InvalidConfiguration."""
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

    :returns: {option: seconds since the epoch}, of the first certificate to
              end in each file; without files that cannot be read.
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
    # Without this OpenSSL would ask for it at the terminal.
    raise ValueError('its key has a password')


class Contexts:
    """The present TLS context.

    :ivar expiry: when the certificates in use end, see read_expiry().
    :raises InvalidConfiguration: if the certificates cannot be used.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._lock = threading.Lock()
        self._context = create_context(conf)
        self.expiry = read_expiry(conf)

    def get(self) -> ssl.SSLContext:
        return self._context

    def reload(self) -> None:
        """Read the certificates again; if they are wrong, keep the old."""
        with self._lock:
            try:
                self._context = create_context(self._conf)
                self.expiry = read_expiry(self._conf)
            except exceptions.InvalidConfiguration as e:
                LOG.error('The certificates of before stay in use: %s', e)
            else:
                LOG.info('The certificates were read anew.')

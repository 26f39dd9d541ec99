# SPDX-License-Identifier: Apache-2.0

"""Uploads an agent configuration to an amphora.

For Octavia's REST driver with a client of our own: one connection and one
``PUT /1.0/config`` per amphora, with one time limit for all of it. Octavia's
client first asks for the API version on a connection of its own, retries for
ten minutes by default and, with a hanging TLS handshake, for half an hour.
With any other amphora driver it calls the driver, as Octavia does.
"""

import asyncio
import dataclasses
import errno
import ipaddress
import os
import resource
import socket
import ssl
import threading

from oslo_utils import timeutils

from octavia_hmsync.amphora import answer
from octavia_hmsync.amphora import tls
from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions

# Characters of an agent's answer to show to the operator.
_DETAIL = 200
# Limit for clients that need threads: these cost memory, and more of them do
# not speed up Octavia's drivers.
THREADS = 32
# Seconds; an agent that works answers much sooner.
_PROBE_TIMEOUT = 3
_TIME = '%Y-%m-%d %H:%M'
# By group: the options for a controller's own certificate and for the
# authorities that it trusts, towards agents and distributors.
CERTIFICATES = {
    'haproxy_amphora': ('client_cert', 'server_ca'),
    cluster_conf.GROUP: ('distributor_client_cert', 'distributor_ca')}


@dataclasses.dataclass(frozen=True)
class Upload:
    """One configuration file, with a secret, for one amphora."""

    amphora_id: str
    lb_network_ip: str
    body: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Answer:
    """The result of an upload.

    :param result: APPLIED, UNREACHABLE, REJECTED or UNSUPPORTED.
    :param error: one line for the operator, None when APPLIED.
    :param is_unanswered: whether nothing at all answered at its address, not
                          even with a wrong certificate.
    """

    result: str
    error: str | None = None
    is_unanswered: bool = False
    seconds: float = dataclasses.field(default=0.0, compare=False)


def create_client(conf):
    """Return a client for the amphora driver in use.

    :returns: an object with a coroutine function ``upload(upload)``, which
              returns an Answer.
    :raises InvalidConfiguration: if the certificates that octavia.conf names
                                  cannot be used.
    """
    if conf.controller_worker.amphora_driver in compat.REST_DRIVERS:
        return RestAgentClient(conf)
    return DriverAgentClient(conf)


def concurrency(conf):
    """Return how many uploads may run at once.

    More than there are threads or files would do harm: an upload that waits
    for a thread uses up its claim, and a process without free files takes
    every amphora for unreachable.
    """
    files, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    places = conf.hmsync.upload_concurrency
    if files != resource.RLIM_INFINITY:
        places = max(1, min(places, files * 3 // 4))
    if conf.controller_worker.amphora_driver in compat.REST_DRIVERS:
        return places
    return min(places, THREADS)


def create_context(conf):
    """Make the TLS context for agents, or raise InvalidConfiguration."""
    haproxy = conf.haproxy_amphora
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = getattr(
        ssl.TLSVersion,
        conf.amphora_agent.agent_tls_protocol.replace('.', '_'))
    for option, load in (('server_ca', context.load_verify_locations),
                         ('client_cert', context.load_cert_chain)):
        try:
            load(haproxy[option])
        except OSError as e:
            raise exceptions.InvalidConfiguration(
                f'[haproxy_amphora] {option} = {haproxy[option]} cannot be '
                f'used ({e}): without it no agent of an amphora can be '
                f'reached. Put the file of octavia-worker there.') from e
    now = timeutils.utcnow()
    for option, (first, last) in get_validity(conf).items():
        if not first <= now <= last:
            raise exceptions.InvalidConfiguration(
                f'[haproxy_amphora] {option} = {haproxy[option]} is valid '
                f'from {first:{_TIME}} to {last:{_TIME}} UTC only: no agent '
                f'of an amphora can be reached. Renew it.')
    return context


def get_validity(conf, group='haproxy_amphora'):
    """Return from when to when the certificates of octavia.conf are valid.

    :param group: one of CERTIFICATES.
    :returns: {option of the group: (datetime, datetime)}, UTC, of those that
              are set; of several authorities that which is valid for longest.
    :raises OSError, ValueError: if a file cannot be read.
    """
    # Imported late: commands that reach no agent start sooner.
    from cryptography import x509

    found = {}
    for option, choose in zip(CERTIFICATES[group], (
            lambda times: times[0],
            lambda times: max(times, key=lambda t: t[1])), strict=True):
        if conf[group][option] is None:
            continue
        with open(conf[group][option], 'rb') as file:
            found[option] = choose([
                (one.not_valid_before_utc.replace(tzinfo=None),
                 one.not_valid_after_utc.replace(tzinfo=None))
                for one in x509.load_pem_x509_certificates(file.read())])
    return found


class RestAgentClient:
    """Speaks the amphora agent's REST API, version 1.0, itself."""

    def __init__(self, conf):
        haproxy = conf.haproxy_amphora
        self._port = haproxy.bind_port
        self._interface = haproxy.lb_network_interface
        self._timeout = conf.hmsync.upload_timeout
        self._heartbeat_key = conf.health_manager.heartbeat_key
        # Shared by all uploads: making a context costs as much as an upload.
        self._tls = create_context(conf)

    async def upload(self, upload):
        try:
            ipaddress.ip_address(upload.lb_network_ip)
        except ValueError:
            return Answer(upload_result.REJECTED,
                          f'its lb_network_ip "{upload.lb_network_ip}" is '
                          f'not an IP address')
        try:
            status, body = await self.ask(
                upload.amphora_id, upload.lb_network_ip, 'PUT', 'config',
                upload.body, 'application/octet-stream')
        except exceptions.AgentUnreachable as e:
            return Answer(upload_result.UNREACHABLE, str(e),
                          is_unanswered=e.is_unanswered)
        return _interpret(status, body, self._where(upload.lb_network_ip),
                          self._heartbeat_key)

    async def ask(self, amphora_id, lb_network_ip, method, path, body='',
                  content_type='application/json', timeout=None, kept=1024,
                  silence=None):
        """Make one request of the API, on its own connection.

        :param path: below ``/1.0/``.
        :param timeout: seconds for all of it; ``[hmsync] upload_timeout`` if
                        None.
        :param kept: how many bytes of the answer to wait for.
        :param silence: seconds after which it ends if nothing has come from
                        there, not even of TLS; as long as timeout if None.
        :raises AgentUnreachable: if no agent answers in time.
        """
        where = self._where(lb_network_ip)
        timeout = timeout or self._timeout
        silence = min(silence or timeout, timeout)
        ends_at = asyncio.get_running_loop().time() + timeout
        limit = asyncio.timeout(silence)

        def go_on():
            # An answer may come in the moment in which the time is over.
            if not limit.expired():
                limit.reschedule(ends_at)

        trace = tls.Trace(go_on)
        content = body.encode()
        # In one write: an agent that has read half a body writes half a
        # configuration file.
        request = (
            f'{method} /1.0/{path} HTTP/1.1\r\n'
            f'Host: {amphora_id}\r\n'
            f'User-Agent: octavia-hmsync\r\n'
            f'Content-Type: {content_type}\r\n'
            f'Content-Length: {len(content)}\r\n'
            f'Connection: close\r\n\r\n'.encode() + content)
        reader = answer.AnswerReader(kept)
        try:
            async with limit:
                await tls.exchange(
                    get_host(lb_network_ip, self._interface), self._port,
                    self._tls, amphora_id, request, reader, trace)
            return reader.status, reader.body
        except TimeoutError:
            # "from None": its cause is no Exception, and TaskFlow cannot
            # revert a flow that has such a cause in its record.
            raise exceptions.AgentUnreachable(
                f'{where} did not answer within '
                f'{timeout if trace.is_answered else silence} s: check the '
                f'amphora and the management network',
                is_unanswered=not trace.is_answered) from None
        except ssl.SSLCertVerificationError as e:
            raise exceptions.AgentUnreachable(
                _certificate_error(where, amphora_id, e)) from e
        except OSError as e:
            raise exceptions.AgentUnreachable(
                f'{where} cannot be reached: {_reason(e)}',
                is_unanswered=not trace.is_answered) from e
        except exceptions.StrangeAnswer as e:
            raise exceptions.AgentUnreachable(
                f'{where} gave a strange answer: {e}. See who answers '
                f'there') from e
        except Exception as e:
            # An agent may answer anything; its answer must not end the work
            # with other amphorae.
            raise exceptions.AgentUnreachable(
                f'{where} closed the connection without a valid answer '
                f'({type(e).__name__})') from e

    def _where(self, lb_network_ip):
        return f'the agent at {lb_network_ip} port {self._port}'


def get_host(lb_network_ip, interface):
    """Return the host to connect to for an agent.

    :param interface: that of the management network, for link-local addresses.
    :raises ValueError: if it is not an IP address.
    """
    ip = ipaddress.ip_address(lb_network_ip)
    if ip.version == 6 and ip.is_link_local and '%' not in lb_network_ip:
        return f'{lb_network_ip}%{interface}'
    return lb_network_ip


def does_anybody_answer(conf, lb_network_ips):
    """Tell whether an agent can be reached, by a TLS connection alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return any(_answers(conf, lb_network_ip, context)
               for lb_network_ip in lb_network_ips)


def _answers(conf, lb_network_ip, context):
    haproxy = conf.haproxy_amphora
    try:
        host = get_host(lb_network_ip, haproxy.lb_network_interface)
        with socket.create_connection(
                (host, haproxy.bind_port),
                min(conf.hmsync.upload_timeout, _PROBE_TIMEOUT)) as sock:
            with context.wrap_socket(sock):
                return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError:
        # A TLS error is an answer, too.
        return True
    except (ValueError, OSError):
        return False


def _interpret(status, body, where, secret):
    if 200 <= status < 300:
        return Answer(upload_result.APPLIED)
    if status == 404:
        return Answer(upload_result.UNSUPPORTED,
                      f'{where} answered 404: its image is too old to be '
                      f'reconfigured. Bring it to a newer one: "octavia-'
                      f'hmsync image replace"')
    # Escaped, for the terminal. Only the first bytes, since a cut could hide
    # a secret from the check below.
    detail = ascii(' '.join(body[:_DETAIL].split()))[1:-1]
    if 'heartbeat_key' in body or (secret and secret in body):
        # Nor is it logged, as logs are copied elsewhere.
        detail = 'it repeats what it was sent'
    return Answer(upload_result.REJECTED,
                  f'{where} answered {status}: {detail or "no details"}. '
                  f'See /var/log/amphora-agent.log in the amphora')


def _reason(error):
    # asyncio's own text does not say why a connection failed.
    if error.errno in errno.errorcode and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return error.strerror or error or type(error).__name__


def _certificate_error(where, amphora_id, error):
    if error.verify_code == 62:  # X509_V_ERR_HOSTNAME_MISMATCH
        return (f'{where} presents the certificate of another amphora, not '
                f'that of {amphora_id}: two amphorae have the same '
                f'lb_network_ip, or the row is out of date')
    return (f'{where} presents a certificate that [haproxy_amphora] '
            f'server_ca does not vouch for: {error.verify_message}')


class DriverAgentClient:
    """Uploads through Octavia's amphora driver interface."""

    def __init__(self, conf):
        self._name = conf.controller_worker.amphora_driver
        self._local = threading.local()

    async def upload(self, upload):
        """Upload one configuration; see RestAgentClient."""
        return await asyncio.get_running_loop().run_in_executor(
            None, self._upload, upload)

    def _driver(self):
        # Threads must not share a driver: the REST driver keeps the expected
        # host name of the current call in itself.
        if not hasattr(self._local, 'driver'):
            self._local.driver = compat.load_amphora_driver(self._name)
        return self._local.driver

    def _upload(self, upload):
        try:
            self._driver().update_amphora_agent_config(
                compat.make_driver_amphora(upload.amphora_id,
                                           upload.lb_network_ip),
                upload.body)
        except compat.UNSUPPORTED_ERRORS:
            return Answer(upload_result.UNSUPPORTED,
                          f'the amphora driver {self._name} cannot upload an '
                          f'agent configuration to this amphora')
        except Exception as e:  # A driver may raise anything.
            return Answer(upload_result.UNREACHABLE,
                          f'the amphora driver {self._name} failed: '
                          f'{type(e).__name__}')
        return Answer(upload_result.APPLIED)

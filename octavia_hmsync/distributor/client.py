# SPDX-License-Identifier: Apache-2.0

"""The client of a distributor's REST API, for controllers.

Each request has its own connection, so that a distributor that was restarted
meanwhile needs no special care. No request is repeated.
"""

import errno
import json
import os
import socket
import ssl
import typing
import urllib.parse

from oslo_log import log as logging
import requests
import urllib3

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import link
from octavia_hmsync import exceptions

API_VERSION = 'v1'
DEFAULT_PORT = 9444

LOG = logging.getLogger(__name__)

_Answer = dict[str, typing.Any]

# Bytes of an answer: 256 members with their counters are 60 KiB, and each VIP
# of a list takes 200 bytes.
_LONGEST = 16 * 1024 * 1024
# Seconds for an answer that takes some milliseconds for each VIP.
_LONG = 10
# Characters of a distributor's text to show to the operator.
_DETAIL = 300


def check_url(url: str) -> str:
    """Return a distributor's URL; raise InvalidConfiguration if it is none."""
    try:
        parts = urllib.parse.urlsplit(url.strip())
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError as e:
        raise exceptions.InvalidConfiguration(
            f'the distributor {doc.show(url)} is not a URL: {e}') from e
    if (parts.scheme != 'https' or not host or parts.query or
            parts.fragment or parts.path.strip('/') or '@' in parts.netloc or
            any(letter.isspace() for letter in parts.netloc)):
        raise exceptions.InvalidConfiguration(
            f'the distributor {doc.show(url)} must be written as '
            f'https://HOST:PORT')
    return f'https://[{host}]:{port}' if ':' in host else (
        f'https://{host}:{port}')


def create_context(server_ca: str, client_cert: str,
                   client_key: str | None = None) -> ssl.SSLContext:
    """Make the TLS context for distributors; any number of clients share it.

    :param server_ca: path of the certificates that vouch for distributors.
    :param client_cert: path of the controller's own certificate.
    :param client_key: path of its key; None if it is in client_cert.
    :raises InvalidConfiguration: if they cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    for path, load in (
            (server_ca, lambda: context.load_verify_locations(server_ca)),
            (client_cert, lambda: context.load_cert_chain(
                client_cert, client_key or None, password=_refuse))):
        try:
            load()
        except (OSError, ValueError) as e:
            raise exceptions.InvalidConfiguration(
                f'No distributor can be asked: the certificate {path} cannot '
                f'be used ({e})') from e
    return context


def _refuse() -> str:
    # Without this OpenSSL would ask for it at the terminal.
    raise ValueError('its key has a password')


class Client:
    """The REST API, version 1, of one distributor. Threads may share it.

    Every error is a DistributorError, in one line that names the distributor:

    * DistributorUnreachable: no valid answer in time.
    * DistributorFailing: it cannot do it now.
    * DistributorUntrusted: one side rejects a certificate or a name in it.
    * DistributorOtherVersion: it does not support version 1.
    * DistributorRejected: the request is invalid.
    * DistributorRefused: it has a newer version.

    :param url: see check_url().
    :param context: see create_context().
    :param connect_timeout: seconds in which it must be connected.
    :param timeout: seconds for the request and the whole answer.
    :raises InvalidConfiguration: if the URL is not valid.
    """

    def __init__(self, url: str, context: ssl.SSLContext,
                 connect_timeout: float = 3, timeout: float = 10) -> None:
        self.url = check_url(url)
        self._context = context
        self._timeouts = (connect_timeout, timeout)

    def get_versions(self) -> _Answer:
        """Return its own description, which is the same in all API versions.

        :returns: {"software_version", "host", "versions": [{"id", ...}]}.
        """
        return self._get('/', ('software_version', 'host', 'versions'))

    def get_status(self) -> _Answer:
        """Return its status: see the API's documentation."""
        return self._get(self._path('status'), ('status', 'host'))

    def list_vips(self) -> list[_Answer]:
        """Return one summary for each VIP: at least "id" and "version"."""
        vips: list[_Answer] = self._get(
            self._path('vips'), ('vips',))['vips']
        return vips

    def get_vip(self, vip_id: str) -> _Answer | None:
        """Return the document and the counters of a VIP; None if unknown."""
        return self._find(self._path('vips', vip_id),
                          ('document', 'members'))

    def get_statistics(self, vip_id: str) -> _Answer | None:
        """Return the counters of a VIP; None if it is unknown."""
        return self._find(self._path('vips', vip_id, 'statistics'),
                          ('members',))

    def get_traffic(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return what was sent to members.

        :returns: {(id of a VIP, id of a member): (packets, bytes)}.
        """
        answer = self._ask('GET', self._path('traffic'), ('vips',),
                           wait=_LONG)
        try:
            return {(vip['id'], member['id']): (int(member['packets']),
                                                int(member['bytes']))
                    for vip in answer['vips'] for member in vip['members']}
        except (KeyError, TypeError, ValueError) as e:
            raise exceptions.DistributorOtherVersion(
                f'{self._who} does not say what it sent to members '
                f'({type(e).__name__}): see whether this release can speak '
                f'to its release') from e

    def get_probes(self, run: str | None = None, after: int = 0,
                   timeout: int = 0) -> _Answer:
        """Return the results of probes of members that changed.

        :param run: the run of the previous answer; None for everything.
        :param after: the sequence of the previous answer.
        :param timeout: seconds for which it may wait for news.
        """
        query = {'after': after, 'timeout': timeout}
        answer: _Answer = self._ask(
            'GET', self._path('probes') + '?' + urllib.parse.urlencode(
                query if run is None else {**query, 'run': run}),
            ('run', 'sequence', 'whole', 'probes'), wait=timeout)
        return answer

    def put_vip(self, vip_id: str, document: doc.Document) -> bool:
        """Put a document in force; repeating it does no harm.

        A distributor of an older release gets no peers, probes or partners, if
        it does not know them.

        :param vip_id: id of the cluster.
        :returns: whether it was not in force before.
        """
        return bool(self._ask(
            'PUT', self._path('vips', vip_id), ('version', 'changed'),
            document.to_dict())['changed'])

    def get_transition(self, vip_id: str) -> _Answer | None:
        """Return the state of a VIP between two lists of members.

        :returns: an argument for put_transition(); None if the VIP is unknown.
        """
        return self._find(self._path('vips', vip_id, 'transition'),
                          ('version', 'base', 'current', 'age'))

    def put_transition(self, vip_id: str, transition: _Answer) -> bool:
        """Copy the active distributor's state to a standby.

        :param transition: what get_transition() of the active one returned.
        :returns: whether it differed before.
        """
        answer: _Answer = self._ask(
            'PUT', self._path('vips', vip_id, 'transition'),
            ('version', 'changed'), transition)
        return bool(answer['changed'])

    def delete_vip(self, vip_id: str, version: int | None = None) -> None:
        """Delete a VIP; repeating it does no harm.

        :param version: version of the deletion. With it, a later document of
                        the same or a lower version is refused, and so is the
                        deletion if a document has a higher version.
        """
        path = self._path('vips', vip_id)
        if version is not None:
            path += f'?version={version}'
        self._ask('DELETE', path, None)

    def _get(self, path: str, expected: tuple[str, ...]) -> _Answer:
        answer: _Answer = self._ask('GET', path, expected)
        return answer

    def _find(self, path: str, expected: tuple[str, ...]) -> _Answer | None:
        answer: _Answer | None = self._ask('GET', path, expected,
                                           may_lack=True)
        return answer

    def _path(self, *parts: str) -> str:
        return '/'.join(['', API_VERSION,
                         *(urllib.parse.quote(part, safe='')
                           for part in parts)])

    def _ask(self, method: str, path: str,
             expected: typing.Collection[str] | None,
             body: object = None, may_lack: bool = False,
             wait: float = 0) -> typing.Any:
        """Make one request.

        :param expected: keys of the answer; None for an empty answer.
        :param wait: seconds that the answer may take beyond the usual time.
        :returns: the answer; None if there is no such VIP.
        """
        status, text = self._exchange(
            method, self.url + path,
            None if body is None else json.dumps(body).encode(), wait)
        if status == 204 and expected is None:
            return None
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise exceptions.DistributorUnreachable(
                f'{self._who} answered {status} with what is no JSON: see '
                f'who answers there')
        if status == 200 and expected is not None:
            missing = [key for key in expected if key not in answer]
            if missing:
                raise exceptions.DistributorOtherVersion(
                    f'{self._who} answered without "{missing[0]}": it does '
                    f'not speak version 1 of the API')
            return answer
        if status == 404 and answer.get('code') == 'UNKNOWN_VIP' and may_lack:
            return None
        raise self._error(status, answer)

    def _error(self, status: int,
               answer: _Answer) -> exceptions.DistributorError:
        said = answer.get('error')
        # Escaped, for the terminal.
        detail = (ascii(' '.join(said.split()))[1:-1][:_DETAIL]
                  if isinstance(said, str) else 'no details')
        match status:
            case 400 | 413 | 415:
                return exceptions.DistributorRejected(
                    f'{self._who} does not take it: {detail}')
            case 403:
                return exceptions.DistributorUntrusted(
                    f'{self._who} does not obey this controller: {detail}')
            case 404 | 405:
                return exceptions.DistributorOtherVersion(
                    f'{self._who} does not speak version 1 of the API: '
                    f'{detail}')
            case 409 if type(answer.get('in_force')) is int:
                return exceptions.DistributorRefused(
                    f'{self._who}: {detail}', answer['in_force'])
        return exceptions.DistributorFailing(
            f'{self._who} answered {status}: {detail}')

    @property
    def _who(self) -> str:
        return f'the distributor {self.url}'

    def _exchange(self, method: str, url: str,
                  body: bytes | None, wait: float) -> tuple[int, bytes]:
        connect_timeout, timeout = self._timeouts
        timeout += wait
        headers = {'Content-Type': 'application/json',
                   'Accept': 'application/json',
                   'User-Agent': 'octavia-hmsync', 'Connection': 'close'}
        with link.Link(self._context, connect_timeout, timeout) as session:
            try:
                return session.exchange(method, url, headers, body, _LONGEST)
            except (requests.RequestException, urllib3.exceptions.HTTPError,
                    OSError, ValueError) as e:
                raise self._explain(e, session.is_late) from e

    def _explain(self, error: Exception,
                 is_late: bool) -> exceptions.DistributorError:
        refusal = link.find_cause(error, ssl.SSLCertVerificationError)
        if refusal:
            return exceptions.DistributorUntrusted(
                self._name_certificate_fault(refusal))
        fault = link.find_cause(error, ssl.SSLError)
        # An OpenSSL alert is the other side's judgement of our certificate.
        if fault and 'ALERT' in (fault.reason or ''):
            return exceptions.DistributorUntrusted(
                f'{self._who} does not take the certificate of this '
                f'controller ({fault.reason.lower().replace("_", " ")}): '
                f'its client_ca must vouch for it')
        cause = link.find_cause(error, OSError)
        if is_late or isinstance(cause, TimeoutError):
            return exceptions.DistributorUnreachable(
                f'{self._who} did not answer within '
                f'{sum(self._timeouts):g} s')
        if isinstance(cause, socket.gaierror):
            reason = f'its name is not known ({cause.strerror})'
        elif cause and cause.errno in errno.errorcode and not fault:
            reason = os.strerror(cause.errno)
        elif isinstance(error, link.TooLong):
            reason = str(error)
        else:
            reason = ('the connection was closed, or what came is no '
                      'answer of a distributor')
        return exceptions.DistributorUnreachable(
            f'{self._who} cannot be asked: {reason}')

    def _name_certificate_fault(
            self, error: ssl.SSLCertVerificationError) -> str:
        # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
        if error.verify_code in (62, 64):
            return (f'{self._who} has the certificate of another name: its '
                    f'subjectAltName must have the host of the URL')
        return (f'{self._who} has a certificate that is not vouched for: '
                f'{error.verify_message}')

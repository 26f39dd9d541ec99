# SPDX-License-Identifier: Apache-2.0

"""Octavia's amphora driver, used to find out what it would ask of an agent.

The driver asks one agent after the other, each for up to ten minutes. So the
plugin itself configures members of a cluster. To learn the requests, it runs
the driver with the clients below, which record requests and send nothing.
"""

import dataclasses
import json

from octavia.amphorae.drivers.haproxy import rest_api_driver
from octavia.common import constants
from octavia.common import data_models
from octavia.common.tls_utils import cert_parser
from oslo_context import context

from octavia_hmsync import compat

StockDriver = rest_api_driver.HaproxyAmphoraLoadBalancerDriver

_API_VERSION = '1.0'


@dataclasses.dataclass(frozen=True)
class Facts:
    """An agent's answers to ``GET info`` and ``GET details``."""

    info: dict
    details: dict


# Facts of no particular amphora, to compare configurations by.
ANY = Facts({'haproxy_version': '2.8.0'}, {})
_NOBODY = '00000000-0000-0000-0000-000000000000'


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to an agent.

    :param body: text; it may be a secret.
    :param unless_same: whether to ask the agent first what it has, as an MD5.
    """

    method: str
    path: str
    body: str = dataclasses.field(default='', repr=False)
    unless_same: bool = False


class UnknownRequest(Exception):
    """Octavia's driver makes a request that the plugin does not know."""


class _Answer:
    headers = {'content-type': 'application/json'}

    def __init__(self, status_code, content):
        self.status_code = status_code
        self._content = content

    def json(self):
        return self._content


class _Notes(rest_api_driver.AmphoraAPIClient1_0):
    """A client that records requests and answers at once."""

    def __init__(self):
        super().__init__()
        self.facts = ANY
        self.requests: dict[str, list[Request]] = {}

    def request(self, method, amp, path='/', timeout_dict=None,
                retry_404=True, raise_retry_exception=False, **kwargs):
        """See AmphoraAPIClientBase; nothing is sent."""
        if method == 'get':
            return self._answer(path)
        body = kwargs.pop('data', None) or ''
        if 'json' in kwargs:
            body = json.dumps(kwargs.pop('json'))
        if kwargs:
            raise UnknownRequest(f'{method} {path} with {", ".join(kwargs)}')
        self.requests.setdefault(amp.id, []).append(Request(
            method.upper(), path,
            body.decode() if isinstance(body, bytes) else body,
            unless_same=method == 'put' and '/certificates/' in path))
        return _Answer(200, {})

    def _answer(self, path):
        if path == '/':
            return _Answer(200, {'api_version': _API_VERSION})
        if path == 'info':
            return _Answer(200, self.facts.info)
        if path == 'details':
            return _Answer(200, self.facts.details)
        if '/certificates/' in path:
            return _Answer(404, {})
        raise UnknownRequest(f'get {path}')


class _Secrets:
    """A certificate manager that fetches each secret only once."""

    def __init__(self, manager):
        self._manager = manager
        self._known = {}

    def _get(self, function, project_id, ref, *args, **kwargs):
        # The project is part of the key, as it decides who may read it.
        key = function, project_id, ref
        if key not in self._known:
            self._known[key] = getattr(self._manager, function)(
                *args, ref, **kwargs)
        return self._known[key]

    def get_cert(self, context, cert_ref, **kwargs):
        return self._get('get_cert', context.project_id, cert_ref, context,
                         **kwargs)

    def get_secret(self, context, secret_ref):
        return self._get('get_secret', context.project_id, secret_ref,
                         context)


class Planner:
    """Finds what Octavia's driver would ask agents; it fetches secrets."""

    def __init__(self):
        self._driver = StockDriver()
        self._notes = _Notes()
        self._driver.clients = {'base': self._notes,
                                _API_VERSION: self._notes}
        self._driver.cert_manager = self._secrets = _Secrets(
            self._driver.cert_manager)

    def fetch_secrets(self, listener):
        """Fetch all that a listener and its pools need.

        Octavia's driver would skip a listener whose secrets it cannot fetch.

        :raises Exception: any error of the certificate manager.
        """
        if listener.protocol in constants.LVS_PROTOCOLS:
            return
        cert_parser.load_certificates_data(self._secrets, listener)
        refs = [listener.client_ca_tls_certificate_id,
                listener.client_crl_container_id]
        pools = [*listener.pools, *(
            policy.redirect_pool for policy in listener.l7policies
            if policy.redirect_pool)]
        for pool in pools:
            if pool.tls_certificate_id:
                cert_parser.load_certificates_data(self._secrets, pool)
            refs += [pool.ca_tls_certificate_id, pool.crl_container_id]
        for ref in filter(None, refs):
            self._secrets.get_secret(
                context.RequestContext(project_id=listener.project_id), ref)

    def read_pems(self, listener):
        """Return the certificates of a listener, with their keys.

        :returns: {name of a file: its content}, as Octavia's driver has them.
        :raises Exception: any error of the certificate manager.
        """
        data = cert_parser.load_certificates_data(self._secrets, listener)
        return {f'{found.id}.pem': cert_parser.build_pem(found).decode()
                for found in (data['tls_cert'], *data['sni_certs']) if found}

    def plan(self, function, *args, facts=ANY):
        """Return the requests of a call of Octavia's driver.

        :returns: {id of an amphora: [Request]}
        :raises Exception: any error of that method.
        """
        self._notes.facts = facts
        self._notes.requests = {}
        getattr(self._driver, function)(*args)
        return self._notes.requests


def make_nobody():
    """Make a placeholder of an amphora, with all fields set."""
    return data_models.Amphora(id=_NOBODY,
                               status=constants.AMPHORA_ALLOCATED)


def is_cluster(load_balancer):
    """Tell whether a load balancer is a cluster of amphorae."""
    return load_balancer.topology == compat.TOPOLOGY_ACTIVE_ACTIVE


def is_member(amphora):
    """Tell whether an amphora is, or will be, a member of a cluster."""
    return amphora is not None and amphora.role == compat.ROLE_IN_CLUSTER

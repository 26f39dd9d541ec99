# SPDX-License-Identifier: Apache-2.0

"""Octavia's and Neutron's API, asked with a tenant's credentials.

openstacksdk finds the credentials: in clouds.yaml, OS_CLOUD, OS_* variables.
It also makes the requests. Answers are used undecoded, so that attributes
which its classes do not know are not lost.
"""

import typing
from urllib import parse
import warnings

from keystoneauth1 import exceptions as ks_exc
import openstack
from openstack import exceptions as sdk_exc
from openstack import warnings as sdk_warnings
import requests

from octavia_hmsync import exceptions

# Seconds, if clouds.yaml has no api_timeout: otherwise a command may hang.
_TIMEOUT = 120
_UNREACHABLE = (ks_exc.ConnectionError, ks_exc.DiscoveryFailure,
                requests.ConnectionError, requests.Timeout)
_ERRORS = (sdk_exc.SDKException, ks_exc.ClientException,
           requests.RequestException, OSError)
# Raised in keystoneauth by an answer that is no discovery document.
_NONSENSE = (AttributeError, KeyError, TypeError, ValueError)
_SERVICES = {'load_balancer': 'Octavia', 'network': 'Neutron'}


class Refused(exceptions.CloudRefused):
    """The API refuses a request."""

    def __init__(self, text, status):
        super().__init__(text)
        self.status = status


def connect(cloud=None):
    """Make a connection, without a request.

    :param cloud: a name of clouds.yaml, None for the environment's cloud.
    :raises CloudUnavailable: if there are no credentials.
    """
    try:
        connection = openstack.connect(cloud=cloud)
        if connection.session.timeout is None:
            connection.session.timeout = _TIMEOUT
    except _ERRORS as e:
        raise _no_credentials(e) from e
    return connection


def _no_credentials(error):
    return exceptions.CloudUnavailable(
        f'No credentials of OpenStack can be used: {_one_line(error)}. Name '
        f'a cloud of clouds.yaml with --os-cloud or OS_CLOUD, or set the OS_* '
        f'variables.')


class API:
    """One of the two APIs: load_balancer or network."""

    def __init__(self, connection, service):
        self._connection = connection
        self._service = service
        self._name = _SERVICES[service]

    def get(self, path, action, **query):
        """Send a GET request; returns the decoded answer."""
        return self._request('GET', path, action, params=query)

    def get_all(self, path, key, action, **query):
        """Read a list, with all its pages."""
        found: list[dict[str, typing.Any]] = []
        while True:
            page = self._request('GET', path, action, params=query)
            found += page[key]
            link = next((link['href'] for link in
                         page.get(f'{key}_links') or ()
                         if link['rel'] == 'next'), None)
            if link is None:
                return found
            # Only the query of the link: behind a proxy the rest may be
            # wrong.
            query = parse.parse_qs(parse.urlsplit(link).query)

    def find(self, path, action):
        """Send a GET request; returns None if the resource is missing."""
        try:
            return self.get(path, action)
        except Refused as e:
            if e.status != 404:
                raise
            return None

    def post(self, path, body, action):
        """Send a POST request; returns the decoded answer."""
        return self._request('POST', path, action, json=body)

    def put(self, path, body, action, headers=None):
        """Send a PUT request; returns the decoded answer."""
        return self._request('PUT', path, action, json=body,
                             headers=headers or {})

    def delete(self, path, action, **query):
        """Send a DELETE request; a missing resource is no error."""
        try:
            self._request('DELETE', path, action, params=query)
        except Refused as e:
            if e.status != 404:
                raise

    def _request(self, method, path, action, **kwargs):
        """Make a request once; the SDK might repeat even a POST.

        :param action: for messages, a verb first.
        :raises Refused: if the answer is no.
        :raises CloudUnavailable: if there is no valid answer.
        """
        kwargs = {name: value for name, value in kwargs.items() if value}
        with warnings.catch_warnings():
            # The SDK warns about a missing endpoint; the error says the same.
            warnings.simplefilter('ignore', sdk_warnings.OpenStackWarning)
            try:
                response = getattr(self._connection, self._service).request(
                    path, method, connect_retries=0, raise_exc=False,
                    **kwargs)
            except _ERRORS as e:
                raise self._translate(action, e) from e
            except _NONSENSE as e:
                raise self._nonsense(
                    action, f'{type(e).__name__}: {_one_line(e)}') from e
        if response.status_code >= 400:
            raise self._refuse(action, response)
        if not response.content:
            return {}
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._nonsense(action, response.url)
        return answer

    def _nonsense(self, action, what):
        return exceptions.CloudUnavailable(
            f'Could not {action}: what answers in place of {self._name} is '
            f'none ({what}). Correct the endpoint, and try again.')

    def _translate(self, action, error):
        if isinstance(error, _UNREACHABLE):
            return exceptions.CloudUnavailable(
                f'Could not {action}: no answer of {self._name} or Keystone '
                f'({_one_line(error)}). Run the command again when they '
                f'answer: it goes on where it stopped.')
        status = getattr(error, 'http_status', None) or getattr(
            error, 'status_code', None)
        if status == 401:
            return exceptions.CloudUnavailable(
                f'Could not {action}: Keystone does not accept the '
                f'credentials. Correct those of clouds.yaml, or the OS_* '
                f'variables.')
        return _no_credentials(error)

    def _refuse(self, action, response):
        reason = _reason(response)
        if response.status_code >= 500:
            return exceptions.CloudUnavailable(
                f'Could not {action}: {self._name} answers HTTP '
                f'{response.status_code}, {reason}. Ask its operator, '
                f'and run the command again.')
        return Refused(
            f'Could not {action}: {self._name} answers HTTP '
            f'{response.status_code}, {reason}.', response.status_code)


def _reason(response):
    """Return an API's error text, in one line."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    if isinstance(body, dict):
        error = body.get('NeutronError', body.get('error', body))
        if isinstance(error, dict):
            text = error.get('faultstring') or error.get('message')
        else:
            text = error
        if text:
            return _one_line(text).rstrip('.')
    return _one_line(response.reason or 'no reason given')


def _one_line(text):
    return ' '.join(str(text).split())

# SPDX-License-Identifier: Apache-2.0

"""Neutron, asked with Octavia's credentials.

Its errors are turned into one line for the operator here.
"""

import contextlib
import dataclasses
import functools
import re
import warnings

from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading as ks_loading
from keystoneauth1 import session as ks_session
import openstack.connection
from openstack import exceptions as sdk_exc
from openstack import warnings as sdk_warnings
from oslo_config import cfg
import requests

from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync import exceptions


@dataclasses.dataclass(frozen=True)
class Service:
    """An OpenStack service.

    :param endpoint: the option with its address.
    :param section: section of octavia.conf with its credentials.
    """

    name: str
    endpoint: str
    section: str


NEUTRON = Service('Neutron', '[neutron] endpoint_override', 'neutron')

_QUOTA = re.compile(r'Quota exceeded for resources: \[?([^\]]*)\]?')
_ETHERNET_MTU = 1500
_NO_ADDRESS = 'No more IP addresses available'
# urllib3 wraps the text of the kernel or of OpenSSL twice.
_POOL = re.compile(r': HTTPS?ConnectionPool\(.*?(?P<cause>\[Errno [^"\']+|'
                   r'timed out|certificate verify failed[^(]*|$).*')
_ABORTED = re.compile(r"\('Connection aborted\.', \w+\(.*?'(.*)'\)\)")
_UNREACHABLE = (ks_exc.ConnectionError, ks_exc.DiscoveryFailure,
                requests.ConnectionError, requests.Timeout)
_ERRORS = (sdk_exc.SDKException, ks_exc.ClientException,
           requests.RequestException, cfg.Error)
# Raised in the SDK by an answer that is not one of the API.
_NONSENSE = (AttributeError, KeyError, TypeError, ValueError)


class _Session(ks_session.Session):
    """A session that makes each request only once.

    The SDK of Octavia 16 to 18 repeats a request whose answer was lost, even
    if that makes something twice.
    """

    def request(self, *args, **kwargs):
        kwargs['connect_retries'] = 0
        return super().request(*args, **kwargs)


class _SessionLoader(ks_loading.session.Session):

    @property
    def plugin_class(self):
        return _Session


def make_session(conf, section, auth):
    """Make a session for one service."""
    session = _SessionLoader().load_from_conf_options(conf, section,
                                                      auth=auth)
    # Without a time-out, an API that hangs blocks its caller for ever.
    session.timeout = conf[network_conf.GROUP].api_timeout
    return session


def connect(conf):
    """Make a connection to Neutron like Octavia's.

    It uses the options of ``[neutron]`` and, where these are not set, of
    ``[service_auth]``. It makes no request itself. Each request has
    ``[hmsync_network] api_timeout`` seconds and is made once.

    :raises CloudUnavailable: if the credentials cannot be used as they are.
    """
    with reported(conf, 'read the credentials'):
        session = make_session(conf, 'neutron', compat.load_neutron_auth())
        options = {'region_name': conf.neutron.region_name}
        if conf.neutron.valid_interfaces:
            options['interface'] = conf.neutron.valid_interfaces[0]
        if conf.neutron.endpoint_override:
            options['network_endpoint_override'] = (
                conf.neutron.endpoint_override)
        return openstack.connection.Connection(session=session, **options)


def connect_as_service(conf, service, section, service_type):
    """Make a connection to Nova or Cinder like Octavia's, without a request.

    Each request has ``[hmsync_network] api_timeout`` seconds and is made once.

    :param section: the section of octavia.conf that is the service's own.
    :raises CloudUnavailable: if the credentials cannot be used as they are.
    """
    own = conf[section]
    options = {name: value for name, value in (
        ('region_name', own.region_name),
        (f'{service_type}_service_name', own.service_name),
        (f'{service_type}_endpoint_override', own.endpoint),
        ('interface', own.endpoint_type.removesuffix('URL'))) if value}
    with reported(conf, 'read the credentials', service):
        return openstack.connection.Connection(
            session=make_session(conf, 'service_auth',
                                 compat_compute.load_auth()), **options)


@contextlib.contextmanager
def reported(conf, action, service=NEUTRON):
    """Turn an error of Neutron or Keystone into one line.

    :param action: what is done, a verb first: 'create the network net1'.
    :raises CloudUnavailable: if there is no valid answer.
    :raises CloudRefused: if the answer is no.
    """
    with warnings.catch_warnings():
        # The SDK warns about a missing endpoint; the error says the same.
        warnings.simplefilter('ignore', sdk_warnings.OpenStackWarning)
        try:
            yield
            return
        except (*_ERRORS, *_NONSENSE) as e:
            error = _translate(conf, action, e, service)
            # Shown by --debug.
            error.__cause__ = e
    raise error


def read_mtu(mtu):
    """Return a network's MTU from Neutron's, which may be 0: no limit."""
    return mtu or _ETHERNET_MTU


class NeutronClient:
    """Base of Neutron's clients. It looks at ports of one project only.

    :param connection: an openstack.connection.Connection; by default it is
                       made when it is needed.
    """

    def __init__(self, conf, connection=None):
        self._conf = conf
        self._given = connection

    @functools.cached_property
    def _connection(self):
        return self._given or connect(self._conf)

    @functools.cached_property
    def _api(self):
        with self._reported('find the Neutron API'):
            return self._connection.network

    @functools.cached_property
    def _scope(self):
        """Filters for the project.

        An administrator sees the ports of all projects, and any project can
        give a port any name.
        """
        with self._reported('ask Keystone'):
            project_id = self._connection.current_project_id
        return {'project_id': project_id} if project_id else {}

    def _reported(self, action):
        return reported(self._conf, action)


def _translate(conf, action, error, service):
    """Return the exception to raise for one of a library."""
    status = getattr(error, 'status_code', None) or getattr(
        error, 'http_status', None)
    reason = _reason(error)
    if status == 401:
        return exceptions.CloudUnavailable(
            f'Keystone does not accept {_user(conf, service)} (HTTP 401), so '
            f'octavia-hmsync could not {action}: correct the credentials in '
            f'{_sections(service)}.')
    if status == 403:
        return exceptions.CloudRefused(
            f'{service.name} does not let {_user(conf, service)} {action} '
            f'({reason}): give it a role that the policy of {service.name} '
            f'asks for, or have the policy changed.')
    quota = status == 409 and _QUOTA.search(reason)
    if quota:
        return exceptions.CloudRefused(
            f'Could not {action}: the quota of {_names(quota.group(1))} of '
            f'the project of {_user(conf, service)} is reached. Raise it, or '
            f'delete what is not needed.')
    if status == 409 and _NO_ADDRESS in reason:
        return exceptions.CloudRefused(
            f'Could not {action}: no address of the subnet is free '
            f'({reason}). Delete ports that are not needed; a subnet cannot '
            f'be made larger.')
    if status and 400 <= status < 500:
        return exceptions.CloudRefused(
            f'Could not {action}: {service.name} answers HTTP {status}, '
            f'{reason}.')
    if status:
        return exceptions.CloudUnavailable(
            f'Could not {action}: {service.name} or Keystone answers HTTP '
            f'{status}, {reason}. See its log, and try again.')
    if isinstance(error, _UNREACHABLE):
        return exceptions.CloudUnavailable(
            f'Could not {action}: {reason}. See whether {service.name} and '
            f'Keystone run, and {service.endpoint}, [service_auth] auth_url '
            f'and their cafile.')
    if isinstance(error, _NONSENSE) and not isinstance(error, _ERRORS):
        return exceptions.CloudUnavailable(
            f'Could not {action}: the answer cannot be read '
            f'({type(error).__name__}: {reason}). See whether '
            f'{service.endpoint} is the address of {service.name}.')
    if isinstance(error, ks_exc.MissingAuthPlugin):
        return exceptions.CloudUnavailable(
            f'Could not {action}: octavia.conf has no credentials. Set '
            f'auth_type, auth_url, username, password, project_name, '
            f'user_domain_name and project_domain_name in '
            f'{_other_sections(service)}.')
    if isinstance(error, ks_exc.MissingRequiredOptions):
        names = ', '.join(opt.dest for opt in error.options)
        return exceptions.CloudUnavailable(
            f'Could not {action}: of the credentials in octavia.conf {names} '
            f'is not set. Set it in {_other_sections(service)}.')
    if isinstance(error, ks_exc.NoMatchingPlugin):
        return exceptions.CloudUnavailable(
            f'Could not {action}: auth_type = {error.name} in octavia.conf '
            f'is unknown to keystoneauth. Correct it in '
            f'{_sections(service)}; password is the usual one.')
    return exceptions.CloudUnavailable(
        f'Could not {action} ({type(error).__name__}: {reason}). See '
        f'[{service.name.lower()}] and [service_auth] in octavia.conf.')


def _reason(error):
    """Return the text of an exception, in one line without a full stop."""
    if isinstance(error, cfg.Error):
        return groups.describe_error(error)
    text = getattr(error, 'details', None) or str(error)
    text = ' '.join(str(text).split()) or type(error).__name__
    text = _ABORTED.sub(r'\1', _POOL.sub(r': \g<cause>', text))
    return text.rstrip(':. ')


def _names(text):
    return ', '.join(re.findall(r'[\w-]+', text)) or text


def _sections(service):
    """Name the sections of its credentials, as they are looked up."""
    return ('[service_auth]' if service.section == 'service_auth' else
            f'[{service.section}] or [service_auth]')


def _other_sections(service):
    """Name the sections that may hold its credentials."""
    return ('[service_auth]' if service.section == 'service_auth' else
            f'[service_auth], or in [{service.section}] where '
            f'{service.name} has others')


def _user(conf, service):
    """Name the user of the credentials."""
    section = conf[service.section].auth_section or service.section
    for option in ('username', 'user_id', 'application_credential_id'):
        try:
            if conf[section][option]:
                return f'the user {conf[section][option]}'
        except cfg.Error:
            # Each kind of credentials has only some of these options.
            continue
    return f'the user of [{section}]'

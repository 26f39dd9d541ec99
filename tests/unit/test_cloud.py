# SPDX-License-Identifier: Apache-2.0

"""What an operator is told when Neutron or Keystone says no, or nothing."""

from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import loading
from openstack import exceptions as sdk_exc
from oslo_config import cfg
import requests

from octavia_hmsync import cloud
from octavia_hmsync import exceptions
from tests.unit import base


def http_error(status, message=''):
    """What the SDK raises for an answer with a status and a message."""
    response = requests.Response()
    response.status_code = status
    response.headers['Content-Type'] = 'application/json'
    response._content = b'{"NeutronError": {"message": "%s"}}' % (
        message.encode())
    try:
        sdk_exc.raise_from_response(response)
    except sdk_exc.HttpException as e:
        return e


class LosingSession(requests.Session):
    """Loses each answer."""

    count = 0

    def request(self, *args, **kwargs):
        self.count += 1
        raise requests.ConnectionError('no answer')


class TestConnect(base.TestCase):

    def test_each_request_is_made_once(self):
        conf = self.make_conf()
        loading.register_session_conf_options(conf, 'neutron')
        session = cloud._SessionLoader().load_from_conf_options(
            conf, 'neutron')
        session.session = LosingSession()
        # As the SDK of Octavia 16 to 18 asks.
        self.assertRaises(ks_exc.ConnectFailure, session.request,
                          'http://127.0.0.1/', 'POST', connect_retries=1)
        self.assertEqual(1, session.session.count)


class TestMTU(base.TestCase):

    def test_no_limit(self):
        self.assertEqual([1450, 1500, 1500], [
            cloud.read_mtu(mtu) for mtu in (1450, 0, None)])


class TestReported(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf()
        loading.register_auth_conf_options(self.conf, 'neutron')

    def assertTold(self, kind, error, *words):
        def fail():
            with cloud.reported(self.conf, 'create the network net1'):
                raise error
        e = self.assertRaises(kind, fail)
        self.assertIs(kind, type(e))
        self.assertNotIn('\n', str(e))
        for word in ('create the network net1', *words):
            self.assertIn(word, str(e))

    def test_refused(self):
        refused = exceptions.CloudRefused
        self.assertTold(
            refused, http_error(403, 'rule:create_network is disallowed'),
            'does not let the user of [neutron]', 'rule:create_network',
            'role')
        self.assertTold(
            refused,
            http_error(409, "Quota exceeded for resources: ['network']."),
            'the quota of network of the project')
        self.assertTold(
            refused, http_error(409, 'No more IP addresses available on '
                                     'network n1.'), 'no address', 'n1')
        self.assertTold(refused, http_error(400, 'bad\\nwords'),
                        'HTTP 400, bad words.')
        self.assertTold(refused, http_error(404, 'gone'), 'HTTP 404, gone.')

    def test_named_user(self):
        self.conf.register_opts(loading.get_auth_plugin_conf_options(
            'v3password'), group='neutron')
        self.conf.set_override('username', 'octavia', group='neutron')
        self.assertTold(exceptions.CloudRefused, http_error(403),
                        'does not let the user octavia')

    def test_unavailable(self):
        unavailable = exceptions.CloudUnavailable
        self.assertTold(unavailable, ks_exc.Unauthorized('who?'),
                        'does not accept the user of [neutron]',
                        'correct the credentials')
        for status in (500, 502, 503, 504):
            self.assertTold(unavailable, http_error(status, 'sorry'),
                            f'HTTP {status}, sorry.', 'try again')
        for error in (ks_exc.ConnectFailure('no route'),
                      ks_exc.ConnectTimeout('late'),
                      ks_exc.SSLError('bad certificate'),
                      ks_exc.DiscoveryFailure('nothing there'),
                      requests.ConnectionError('reset')):
            self.assertTold(unavailable, error, str(error),
                            '[neutron] endpoint_override', 'cafile')
        for error in (sdk_exc.InvalidResponse('no id'),
                      requests.exceptions.JSONDecodeError('no', 'json', 0)):
            self.assertTold(unavailable, error, type(error).__name__,
                            'See [neutron] and [service_auth]')

    def test_credentials_that_are_not_there(self):
        """It is said which options to set, and where."""
        unavailable = exceptions.CloudUnavailable
        self.assertTold(
            unavailable, ks_exc.MissingAuthPlugin('no plugin'),
            'octavia.conf has no credentials. Set auth_type, auth_url, '
            'username, password', 'in [service_auth], or in [neutron]')
        self.assertTold(
            unavailable, ks_exc.MissingRequiredOptions(
                [loading.Opt('auth-url'), loading.Opt('token')]),
            'auth_url, token is not set', '[service_auth]')
        self.assertTold(unavailable, ks_exc.NoMatchingPlugin('sesame'),
                        'auth_type = sesame', '[service_auth]')

    def test_option_that_cannot_be_read(self):
        self.assertTold(
            exceptions.CloudUnavailable, cfg.ConfigFileValueError(
                'Value for option insecure from %s is not valid: x' % (
                    cfg.LocationInfo(cfg.Locations.user, '/etc/o.conf'),)),
            'insecure from /etc/o.conf is not valid: x). See [neutron]')

    def test_what_libraries_wrap_is_unwrapped(self):
        pool = ("Unable to establish connection to http://n:9696/: "
                "HTTPConnectionPool(host='n', port=9696): Max retries "
                "exceeded with url: / (Caused by NewConnectionError(\"x: "
                "Failed: [Errno 111] Connection refused\"))")
        self.assertTold(
            exceptions.CloudUnavailable, ks_exc.ConnectFailure(pool),
            'to http://n:9696/: [Errno 111] Connection refused. See')
        aborted = ("Unable to establish connection to http://n/: "
                   "('Connection aborted.', RemoteDisconnected('Remote end "
                   "closed connection without response'))")
        self.assertTold(
            exceptions.CloudUnavailable, ks_exc.ConnectFailure(aborted),
            'http://n/: Remote end closed connection without response. See')

    def test_answers_that_are_none(self):
        for error in (TypeError('pop expected'), KeyError('networks'),
                      AttributeError("'int' object"), ValueError('x')):
            self.assertTold(exceptions.CloudUnavailable, error,
                            'the answer cannot be read',
                            type(error).__name__)

    def test_our_own_mistakes_are_not_the_clouds(self):
        def fail():
            with cloud.reported(self.conf, 'create'):
                raise ZeroDivisionError()
        self.assertRaises(ZeroDivisionError, fail)

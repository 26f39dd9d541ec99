# SPDX-License-Identifier: Apache-2.0

"""A replacement that this process has claimed."""

from unittest import mock

import fixtures
from keystoneauth1 import exceptions as ks_exc

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import work as work_
from tests.unit import base


class TestWork(base.TestCase):

    def test_neutron_is_down(self):
        """Octavia's driver passes on what its request met with."""
        self.useFixture(fixtures.MockPatchObject(
            work_.agent_client, 'RestAgentClient'))
        self.useFixture(fixtures.MockPatchObject(
            compat_amphora, 'load_network_driver',
            side_effect=ks_exc.ConnectFailure('Unable to\nconnect.')))
        error = self.assertRaises(
            exceptions.CloudUnavailable, work_.Work, mock.Mock(),
            mock.sentinel.engine, mock.Mock(), 'owner', mock.Mock())
        self.assertEqual('A driver of the network or compute service cannot '
                         'be used: Unable to connect.', str(error))

    def test_neutron_does_not_tell(self):
        """What it says no to is another thing than no answer."""
        self.useFixture(fixtures.MockPatchObject(
            work_.agent_client, 'RestAgentClient'))
        for name in ('load_network_driver', 'load_compute_driver'):
            self.useFixture(fixtures.MockPatchObject(compat_amphora, name))
        work = work_.Work(mock.Mock(host='hk'), mock.sentinel.engine,
                          mock.Mock(), 'owner', mock.Mock())

        def ask(error):
            raise error

        error = self.assertRaises(
            exceptions.CloudUnavailable, work.ask_network, 'amphora', ask,
            compat_amphora.network_base.NetworkException('down'))
        self.assertIn('how amphora amphora is plugged in: see the log of the '
                      'housekeeper hk', str(error))
        for error in (compat_amphora.PortNotFound('gone'), KeyError('mtu')):
            self.assertRaises(type(error), work.ask_network, 'amphora', ask,
                              error)
        self.assertEqual('port', work.ask_network('amphora', str, 'port'))

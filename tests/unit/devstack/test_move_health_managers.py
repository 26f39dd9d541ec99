# SPDX-License-Identifier: Apache-2.0

"""The script of the devstack job tells good from bad."""

import json

from tests.unit.cli import base as cli_base
from tests.unit.devstack import check
from tests.unit.devstack import node

GOOD = {'generation': 2, 'status': 'COMPLETE', 'suspects': [],
        'controller_ip_port_list': ['192.0.2.4:5555', '192.0.2.3:5555'],
        'amphorae': 2, 'due': 0, 'applied': 2, 'unreachable': 0,
        'rejected': 0, 'unsupported': 0, 'adopted': 2, 'pending': 0,
        'not_adopted': 0, 'unproven': 0}
BOTH = ('192.0.2.3:5555', '192.0.2.4:5555')
AMPHORAE = 'loadbalancer amphora list'
STATUS = 'sync status -f json'
NOT_ADOPTED = 'amphora list --not-adopted -f value -c id'


class TestCheck(check.CheckTestCase):

    SCRIPT = node.TOP / 'playbooks/move-health-managers/check.sh'

    def setUp(self):
        super().setUp()
        self.answer(AMPHORAE, 'amp2;amp1')
        self.answer(STATUS, json.dumps(GOOD))

    def test_good(self):
        self.run_script('begin')
        self.answer(AMPHORAE, 'amp1;amp2')
        self.run_script('expect', *BOTH)
        self.run_script('end')
        self.assertEqual(1, len(self.calls('loadbalancer create')))
        self.assertEqual(1, len(self.calls('loadbalancer delete')))
        self.assertFalse((self.directory / 'noted').exists())

    def test_commands_of_ours_exist(self):
        self.run_script('begin')
        self.run_script('expect', *BOTH)
        commands = self.calls('octavia-hmsync')
        self.assertEqual(2, len(commands))
        for command in commands:
            node.parse_command(command.split()[1:])

    def test_waits(self):
        self.run_script('begin')
        self.answer(STATUS, 'not reachable', json.dumps({**GOOD, 'due': 1}),
                    json.dumps({**GOOD, 'adopted': 1, 'pending': 1}),
                    json.dumps(GOOD))
        self.run_script('expect', *BOTH)
        self.assertEqual(4, len(self.calls(STATUS)))

    def check_gives_up(self, addresses=BOTH, **status):
        self.run_script('begin')
        self.answer(STATUS, json.dumps({**GOOD, **status}))
        self.assertIn('after 0 s not all amphorae use',
                      self.run_script('expect', *addresses, code=1,
                                      timeout=0))

    def test_another_list(self):
        self.check_gives_up(addresses=BOTH[:1])

    def test_no_list(self):
        self.check_gives_up(controller_ip_port_list=[])

    def test_not_adopted(self):
        self.check_gives_up(adopted=1, unproven=1)

    def test_no_amphorae(self):
        self.check_gives_up(amphorae=0, applied=0, adopted=0)

    def test_old_image(self):
        self.run_script('begin')
        self.answer(NOT_ADOPTED, 'amp1')
        self.assertIn('do not use their list: amp1',
                      self.run_script('expect', *BOTH, code=1))

    def test_failover(self):
        self.run_script('begin')
        self.answer(AMPHORAE, 'amp1;amp3')
        for words in (('expect', *BOTH), ('end',)):
            self.assertIn('failed over', self.run_script(*words, code=1))
        self.assertEqual([], self.calls('loadbalancer delete'))

    def test_no_amphora_at_all(self):
        self.answer(AMPHORAE)
        self.assertIn('has no amphora', self.run_script('begin', code=1))

    def test_bad_arguments(self):
        for words in ((), ('nonsense',), ('expect',)):
            self.assertIn('check.sh: ', self.run_script(*words, code=1))


class TestStatus(cli_base.CommandTestCase):

    def test_has_what_the_script_reads(self):
        status = self.run_json('sync', 'status')
        self.assertEqual(set(), set(GOOD) - set(status))
        self.assertEqual([], status['controller_ip_port_list'])

# SPDX-License-Identifier: Apache-2.0

"""The script of the job of images tells good from bad."""

from tests.unit.devstack import check
from tests.unit.devstack import node

SINGLE = 'hmsync-check-SINGLE'
PAIR = 'hmsync-check-ACTIVE_STANDBY'
AMPHORAE = 'loadbalancer amphora list --loadbalancer'
IMAGE = 'loadbalancer amphora show -f value -c image_id'
OUTDATED = 'image list'
REQUESTS = '*http:??192.0.2.8', '*http:??192.0.2.9'


class TestCheck(check.CheckTestCase):

    SCRIPT = node.TOP / 'playbooks/replace-image/check.sh'

    def setUp(self):
        super().setUp()
        self.answer('image show', 'new')
        self.answer('loadbalancer show', 'port')
        self.answer('floating ip create', '192.0.2.8', '192.0.2.9')
        for request in REQUESTS:
            self.answer(request, '000', '302')
        self.answer(OUTDATED, '', f'{SINGLE};{PAIR}', '')
        self.answer(f'{AMPHORAE} {SINGLE}', 'amp1', 'amp4')
        self.answer(f'{AMPHORAE} {PAIR}', 'amp3;amp2', 'amp5;amp6')
        self.answer(IMAGE, 'new')

    def check_fails(self, text, **kwargs):
        self.assertIn(f'check.sh: {text}', self.run_script(code=1, **kwargs))
        self.assertEqual([], self.calls('loadbalancer delete'))
        # The clients have ended.
        self.assertEqual([], list(self.directory.glob('tmp.*')))

    def test_good(self):
        output = self.run_script()
        for name in (SINGLE, PAIR):
            self.assertIn(f'{name} answered (times, status): ', output)
            self.assertEqual(
                [f'openstack loadbalancer delete --cascade --wait {name}'],
                self.calls(f'delete --cascade --wait {name}'))
        order = [' '.join(call.split()[:3]) for call in self.calls('')
                 if 'image set' in call or 'image replace' in call or
                 'image check' in call or 'image list' in call]
        self.assertEqual(
            ['octavia-hmsync image list', 'openstack image set',
             'octavia-hmsync image list', 'octavia-hmsync image check',
             *['octavia-hmsync image replace'] * 2,
             'octavia-hmsync image list'], order)
        self.assertEqual([], list(self.directory.glob('tmp.*')))

    def test_commands_exist(self):
        self.run_script()
        for command in self.calls('octavia-hmsync'):
            node.parse_command(command.split()[1:])
        commands = set(self.calls('openstack'))
        self.assertLess(20, len(commands))
        for command in commands:
            node.parse_openstack(command.split()[1:])

    def test_outdated_before(self):
        """The new image had the tag from the beginning, or others have."""
        self.answer(OUTDATED, 'mail')
        self.check_fails('outdated should be (), and is: mail')

    def test_not_outdated(self):
        self.answer(OUTDATED, '', SINGLE)
        self.check_fails(f'outdated should be ({SINGLE} {PAIR}), and is: '
                         f'{SINGLE}')

    def test_outdated_afterwards(self):
        self.answer(OUTDATED, '', f'{SINGLE};{PAIR}', PAIR)
        self.check_fails(f'outdated should be (), and is: {PAIR}')

    def test_check_fails(self):
        self.answer('image check', 'exit 2')
        self.check_fails('a replacement would fail')
        self.assertEqual([], self.calls('image replace'))

    def test_check_warns(self):
        self.answer('image check', 'exit 1')
        self.run_script()

    def test_replacement_fails(self):
        self.answer('image replace', 'exit 1')
        self.run_script(code=1)
        self.assertEqual(1, len(self.calls('image replace')))

    def test_not_replaced(self):
        self.answer(f'{AMPHORAE} {PAIR}', 'amp3;amp2', 'amp2;amp5')
        self.check_fails(f'amp2 of {PAIR} was not replaced')

    def test_one_is_missing(self):
        self.answer(f'{AMPHORAE} {PAIR}', 'amp3;amp2', 'amp5')
        self.check_fails(f'{PAIR} had the amphorae amp2')

    def test_another_image(self):
        self.answer(IMAGE, 'new', 'old')
        self.check_fails(f'amp5 of {PAIR} is not of the image new')

    def test_requests_fail(self):
        self.answer(REQUESTS[0], '302', *['000'] * 3, '302')
        self.check_fails(f'{SINGLE} answered (times, status): 3 000')

    def test_never_answers(self):
        self.answer(REQUESTS[1], '000')
        self.answer(REQUESTS[0], '302')
        self.check_fails(f'{PAIR} does not answer at 192.0.2.9 after 0 s',
                         timeout=0)

    def test_no_amphora(self):
        self.answer(f'{AMPHORAE} {SINGLE}')
        self.check_fails(f'{SINGLE} has no amphora')

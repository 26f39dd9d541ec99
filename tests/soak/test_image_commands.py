#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.


"""The commands of image upgrades, in a whole Octavia."""

from tests.functional import images


class TestCommands(images.ImageTestCase):

    def run_command(self, *arguments):
        return self.cloud.command('octavia-hmsync', 'image', *arguments)

    def test_one_and_then_all(self):
        lb = self.add_load_balancer()
        before = self.look(lb)
        self.assertIn('there is nothing to do',
                      self.run_command('replace', lb.name, '--wait'))
        second = self.cloud.add_image('second')
        with self.under_probe(lb) as seen:
            out = self.run_command('replace', lb.name, '--wait', '--timeout',
                                   '200', '--interval', '0.1')
        for phase in ('BUILD', 'PROVE', 'DONE'):
            self.assertIn(f'Load balancer {lb.id}: {phase}', out)
        self.assertHardlyNoticed(seen.report)
        self.assertUpgraded(lb, second, before)
        self.assertEqual([], self.image('replacement', 'list'))
        self.assertEqual(['DONE'], [row['state'] for row in self.image(
            'replacement', 'list', '--loadbalancer', lb.name)])

        before = self.look(lb)
        third = self.cloud.add_image('third')
        self.assertIn(lb.id, self.run_command('rollout', 'start'))
        out = self.run_command('rollout', 'watch', '--timeout', '200')
        self.assertIn('DONE (1 done), 1 DONE', out)
        self.assertUpgraded(lb, third, before)
        self.assertEqual(('DONE', 1, 0), tuple(
            self.image('rollout', 'show')[name]
            for name in ('state', 'done', 'failed')))

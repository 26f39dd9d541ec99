# SPDX-License-Identifier: Apache-2.0

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
        self.assertIn('RUNNING', self.run_command('rollout', 'start'))
        out = self.run_command('rollout', 'watch', '--timeout', '200')
        self.assertIn('DONE (1 done)\n', out)
        self.assertUpgraded(lb, third, before)
        self.assertEqual(('DONE', 1, 0), tuple(
            self.image('rollout', 'show')[name]
            for name in ('state', 'done', 'failed')))

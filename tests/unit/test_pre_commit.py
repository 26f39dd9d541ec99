# SPDX-License-Identifier: Apache-2.0

"""The hooks of pre-commit are the checks of tox, in the same versions."""

import configparser
import pathlib
import re
import shlex

from oslotest import base
import yaml

TOP = pathlib.Path(__file__).resolve().parents[2]


def requirement_lines(file):
    """Return the requirements in a file, without their licences."""
    lines = (line.partition(' #')[0].strip()
             for line in (TOP / file).read_text().splitlines())
    return {line for line in lines if line and not line.startswith('#')}


class TestPreCommit(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        config = yaml.safe_load(
            (TOP / '.pre-commit-config.yaml').read_text())
        self.remote = [repo for repo in config['repos']
                       if repo['repo'] != 'local']
        self.hooks = {hook['id']: hook for repo in config['repos']
                      if repo['repo'] == 'local' for hook in repo['hooks']}

    def test_same_versions(self):
        known = {*requirement_lines('style-requirements.txt'),
                 *requirement_lines('test-requirements.txt'),
                 *requirement_lines('doc/requirements.txt')}
        wanted = [line for hook in self.hooks.values()
                  for line in hook.get('additional_dependencies', ())]
        self.assertIn('hacking', ' '.join(wanted))
        self.assertEqual([], [line for line in wanted if line not in known])

    def test_each_python_hook_says_what_it_needs(self):
        self.assertEqual([], [
            name for name, hook in self.hooks.items()
            if hook['language'] == 'python' and
            not hook.get('additional_dependencies')])

    def test_same_checks_as_tox(self):
        tox = configparser.ConfigParser(interpolation=None)
        tox.read(TOP / 'tox.ini')
        for line in tox['testenv:pep8']['commands'].strip().splitlines():
            tool, *arguments = shlex.split(line)
            entry = shlex.split(self.hooks[tool]['entry'])
            self.assertEqual(tool, entry[0])
            # The files are pre-commit's choice.
            self.assertEqual(
                {a for a in arguments if a.startswith('-')} - {'-r'},
                set(entry[1:]))

    def test_others_are_pinned(self):
        for repo in self.remote:
            self.assertTrue(re.fullmatch(r'v?\d+(\.\d+)+|[0-9a-f]{40}',
                                         repo['rev']), repo)

    def test_pictures_stay_as_they_were_drawn(self):
        hook, = [hook for repo in self.remote for hook in repo['hooks']
                 if hook['id'] == 'trailing-whitespace']
        changed = [str(path) for path in (TOP / 'doc/source').rglob('*.svg')
                   if re.search(r'[ \t]$', path.read_text(), re.MULTILINE)]
        self.assertNotEqual([], changed)
        self.assertEqual([], [path for path in changed if not re.search(
            hook.get('exclude', '$^'), path)])

    def test_shellcheck_is_a_package_of_the_distribution(self):
        self.assertIn('shellcheck [', (TOP / 'bindep.txt').read_text())

# SPDX-License-Identifier: Apache-2.0

"""Runs tests of octavia-tempest-plugin, and reads what came out."""

import dataclasses
import io
import os
import pathlib
import re
import subprocess

import fixtures
import subunit
import testtools

from tests.cloud import process
from tests.cloud import virtualenv
from tests.cloud import waiting
from tests.tempest import configuration

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = ('tempest>=47.0.0,<48', 'octavia-tempest-plugin>=3.5.0,<4')
PASSED, FAILED, SKIPPED = 'passed', 'failed', 'skipped'
_OUTCOMES = {'success': PASSED, 'skip': SKIPPED}
# Seconds.
_PATIENCE = 6 * 3600
_STESTR = """\
[DEFAULT]
test_path={package}/test_discover
top_dir={top}
group_regex=([^\\.]*\\.)*
"""


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of a test.

    :param name: of the test, without the package of the suite.
    :param outcome: PASSED, FAILED or SKIPPED.
    :param reason: a line, where it did not pass.
    """

    name: str
    outcome: str
    reason: str = ''


def read(stream):
    """Return a list of Results.

    :param stream: bytes, in subunit's second protocol.
    """
    found = []

    def add(test):
        outcome = _OUTCOMES.get(test['status'], FAILED)
        details = test['details']
        text = (details['reason'].as_text() if 'reason' in details else
                details['traceback'].as_text() if 'traceback' in details
                else '')
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # Of a class that could not be set up: setUpClass (module.Class).
        name = re.sub(r'^(\w+) \((.*)\)$', r'\2.\1',
                      re.sub(r'\[.*', '', test['id']))
        found.append(Result(
            name.replace('octavia_tempest_plugin.tests.', ''), outcome,
            '' if outcome == PASSED or not lines else lines[-1]))

    result = testtools.StreamToDict(add)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(io.BytesIO(stream)).run(result)
    result.stopTestRun()
    return sorted(found, key=lambda each: each.name)


class Suite(fixtures.Fixture):
    """The suite for one provider of a cloud.

    :param cloud: one of clouds.py.
    :param provider: of its load balancers.
    :param web_servers: web_servers.WebServers; with them tests run in the
                        external network.
    :param log_directory: where what stestr and tempest say goes.
    """

    def __init__(self, cloud, provider, log_directory, web_servers=None):
        super().__init__()
        self._cloud = cloud
        self._provider = provider
        self._log_directory = log_directory
        self._web_servers = web_servers

    def _setUp(self):
        self._bin = virtualenv.make('tempest', *REQUIREMENTS) / 'bin'
        self.directory = self.useFixture(fixtures.TempDir()).path
        conf = os.path.join(self.directory, 'tempest.conf')
        configuration.write(
            conf, self._cloud, self._provider, bool(self._web_servers),
            os.path.join(self._log_directory,
                         f'tempest-{self._provider}.log'))
        self._env = process.environment(
            self.directory, TEMPEST_CONFIG=conf,
            PYTHONPATH=str(HERE / 'patches'), PYTHON=str(self._bin / 'python'))
        self._env['PATH'] = f'{self._bin}:{self._env["PATH"]}'
        self._env.pop('VIRTUAL_ENV', None)
        if self._provider == 'amphora_cluster':
            self._env['TEMPEST_AS_AMPHORA'] = self._provider
        if self._web_servers:
            self._env['TEMPEST_WEB_SERVERS'] = self._web_servers.url
        package = pathlib.Path(process.run(
            self._bin / 'python', '-c', 'import os, tempest; '
            'print(os.path.dirname(tempest.__file__))',
            env=self._env).strip())
        pathlib.Path(self.directory, '.stestr.conf').write_text(
            _STESTR.format(package=package, top=package.parent))
        process.run(self._bin / 'stestr', 'init', cwd=self.directory,
                    env=self._env)

    def run(self, patterns, concurrency=2):
        """Run the tests that patterns name.

        :param patterns: regular expressions.
        :returns: a list of Results.
        """
        include = os.path.join(self.directory, 'include.txt')
        pathlib.Path(include).write_text('\n'.join(patterns) + '\n')
        command = [str(self._bin / 'stestr'), 'run', '--include-list',
                   include, '--concurrency', str(concurrency)]
        if self._web_servers:
            command = self._cloud.outside.namespace.wrap(command)
        with process.ChildProcess(
                f'stestr-{self._provider}', command, self._log_directory,
                self._env, self.directory) as child:
            waiting.wait_for(lambda: not child.running, 'the end of stestr',
                             _PATIENCE, processes=self._cloud.controllers)
        found = read(subprocess.run(
            [self._bin / 'stestr', 'last', '--subunit'], cwd=self.directory,
            env=self._env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE).stdout)
        if not found:
            raise RuntimeError(f'No test ran:\n{child.log_tail()}')
        return found

# SPDX-License-Identifier: Apache-2.0

"""Runs commands of python-openstackclient, in a process of their own.

It configures logging for the whole process, and starts in a second or two, so
one process runs all commands of a test.
"""

import contextlib
import io
import json
import subprocess
import sys

import fixtures

from tests.cloud import process


class CommandFailed(Exception):
    """The command's exit status is not 0."""


class Commands(fixtures.Fixture):
    """The command "openstack", with an Octavia and a Neutron without Keystone.

    :param load_balancer_url: of Octavia.
    :param network_url: of Neutron.
    :param pause: seconds between two looks of a command that waits.
    """

    def __init__(self, load_balancer_url, network_url, pause):
        super().__init__()
        self._variables = {
            'OS_AUTH_TYPE': 'none', 'OS_ENDPOINT': load_balancer_url,
            'OS_NETWORK_ENDPOINT_OVERRIDE': network_url}
        self._pause = pause

    def _setUp(self):
        # Caches are written into the home directory.
        home = self.useFixture(fixtures.TempDir()).path
        self._process = subprocess.Popen(
            [sys.executable, '-m', __name__, str(self._pause)],
            env=process.environment(home, **self._variables), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self._process.wait)
        self.addCleanup(self._process.stdout.close)
        self.addCleanup(self._process.stdin.close)

    def run(self, *arguments):
        """Run "openstack loadbalancer ...".

        :returns: what it wrote.
        :raises CommandFailed: with what it wrote as an error.
        """
        self._process.stdin.write(json.dumps(['loadbalancer', *arguments]))
        self._process.stdin.write('\n')
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        if code:
            raise CommandFailed(f'{" ".join(arguments)}: {err}')
        return out

    def ask(self, *arguments):
        """Run a command; returns what it has for programs."""
        return json.loads(self.run(*arguments, '-f', 'json'))


def main():
    from openstackclient import shell
    from osc_lib import utils

    class Time:
        """What commands that wait sleep with."""

        time = staticmethod(utils.time.time)

        @staticmethod
        def sleep(_, sleep=utils.time.sleep, pause=float(sys.argv[1])):
            sleep(pause)

    utils.time = Time
    for line in sys.stdin:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = shell.main(json.loads(line))
        print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)


if __name__ == '__main__':
    main()

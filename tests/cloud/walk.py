# SPDX-License-Identifier: Apache-2.0

"""Goes through a page of the documentation, and runs what it says.

tests/functional/test_walk.py tells how.
"""

import configparser
import os
import re
import subprocess
import sys
import time

from tests.cloud import pages
from tests.cloud import process

# Seconds until the cloud has got as far as the page, for commands that only
# look; others are run once.
PATIENCE = 30
LOOKS = re.compile(r'octavia-hmsync .*(list|show|status|check)\b')


class Walk:
    """Goes through a page.

    :param name: of the page.
    :param shell: a Shell.
    :param not_run: commands in its text that are not run.
    """

    def __init__(self, name, shell, not_run=()):
        self._page = pages.Page(name)
        self._not_run = not_run
        self._blocks = list(self._page.blocks)
        self._shell = shell

    def _take(self, languages, text):
        if not self._blocks:
            raise AssertionError(
                f'{self._page.name} has no more of what this test goes on '
                f'with: {text}')
        block = self._blocks.pop(0)
        if (block.language not in languages or
                not block.text.startswith(text)):
            raise AssertionError(
                f'{self._page.name} goes on with this block, and this test '
                f'with "{text}":\n{block}')
        return block

    def run(self, command):
        """Run the next block, a console that begins with this command.

        :returns: a list of what each of its commands prints.
        """
        block = self._take(['console'], (f'$ {command}', f'# {command}'))
        return [self._run(block, each, expected)
                for each, expected in block.commands]

    def _run(self, block, command, expected):
        code, matches, output = self._shell.run_until(command, expected)
        if not matches:
            self._differ(block, f'{command} prints:\n{output}')
        elif code and '$ echo $?' not in block.text:
            self._differ(block, f'{command} ends with {code}:\n{output}')
        return output

    def _differ(self, block, what):
        self._shell.differences.append(
            f'{self._page.name} has in {block}\nbut {what}')

    def lines(self):
        """Return the next block, options, as {group: {option: value}}."""
        parser = configparser.ConfigParser(default_section='',
                                           interpolation=None)
        parser.read_string(self._take(['ini'], '').text)
        return {group: {name: value.replace('\n', ' ')
                        for name, value in parser[group].items()}
                for group in parser.sections() if group}

    def sql(self):
        """Return the next block, a statement."""
        return self._take(['sql'], '').text

    def pass_over(self, *commands):
        """Pass over commands of the next block; its others are run.

        :returns: a list of what these print.
        """
        block = self._take(['console'],
                           (f'$ {commands[0]}', f'# {commands[0]}'))
        return [self._run(block, each, expected)
                for each, expected in block.commands
                if not each.startswith(commands)]

    def see(self, text):
        """Pass over the next block, which begins so."""
        self._take([''], text)

    def end(self):
        """See that nothing is left."""
        if self._blocks:
            raise AssertionError(
                f'{self._page.name} goes on where this test ends, with:\n'
                f'{self._blocks[0]}')

    def run_text(self):
        """Run the commands in the text."""
        for command in self._page.inline:
            if command not in {*self._not_run, *self._shell.done}:
                code, output = self._shell.run(command)
                if code:
                    self._shell.differences.append(
                        f'{self._page.name} has {command} in the text, but '
                        f'it ends with {code}:\n{output}')


class Shell:
    """Where an operator types.

    :param directory: the home directory.
    :param wrap: called with a command, as a list; returns it as it is run.
    :param environment: more variables of it.
    """

    def __init__(self, directory, wrap=lambda command: command,
                 **environment):
        self._directory = directory
        self._wrap = wrap
        self._environment = process.environment(
            directory, PIP_NO_INDEX='1', PATH=os.pathsep.join(
                [os.path.dirname(sys.executable), os.environ['PATH']]),
            **environment)
        # What stands in the place of a name in a page, in capitals.
        self.names = {}
        self._code = 0
        self.done = set()
        self.differences = []

    def run(self, command):
        """Run a command; returns (its exit code, what it prints)."""
        self.done.add(command)
        for name, value in self.names.items():
            command = re.sub(rf'\b{name}\b', value, command)
        # It may ask for $?.
        done = subprocess.run(
            self._wrap(['bash', '-c', f'(exit {self._code}); {command}']),
            cwd=self._directory, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=600)
        self._code = done.returncode
        return done.returncode, done.stdout

    def run_until(self, command, expected):
        """Run a command until it prints what is expected, if anything is.

        :returns: (exit code, whether it printed that, what it printed).
        """
        expected = pages.normalize(expected)
        deadline = time.monotonic()
        if LOOKS.match(command):
            deadline += PATIENCE
        while True:
            code, output = self.run(command)
            matches = expected in ('', pages.normalize(output))
            if matches or time.monotonic() > deadline:
                return code, matches, output

# SPDX-License-Identifier: Apache-2.0

"""The steps of replacements, and of what is done for a cluster.

Housekeepers and workers tell of them; a test may step in. A step is a call:
"enter PROVE", "built <task>", "agent <amphora> POST plug/network", "GET
http://.../ports", "lock", "member take_over_slot". It waits until the test
has answered. See site/hmsync_tests_steps.py.
"""

import dataclasses
import json
import os
import re
import socketserver
import threading
import typing

import fixtures

VARIABLE = 'OCTAVIA_HMSYNC_TESTS_STEPS'

_VARIES = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|'
                     r'\d+\.\d+\.\d+\.\d+(:\d+)?')


def generalize(what, when='before'):
    """Return the pattern of a step, whomever it is about."""
    parts, end = [], 0
    for found in _VARIES.finditer(what):
        parts += [re.escape(what[end:found.start()]), '[0-9a-f.:-]+']
        end = found.end()
    return ''.join([when, ' ', *parts, re.escape(what[end:]), '$'])


class Refused(Exception):
    """Raised by an action: the step fails, with this text."""


@dataclasses.dataclass(frozen=True)
class Step:
    """What somebody is about to do, or has done.

    :param when: before or after.
    :param what: the call.
    :param pid: of the process.
    :param whose: the id of the replacement, or of the cluster.
    """

    when: str
    what: str
    pid: int
    whose: str

    def __str__(self):
        return f'{self.when} {self.what}'


@dataclasses.dataclass
class _Rule:
    pattern: re.Pattern
    whose: str | None
    action: typing.Callable
    left: int
    happened: threading.Event


class Steps(fixtures.Fixture):
    """Hears of steps; .seen has all of them.

    :param directory: a short one: it will hold a socket.
    """

    def __init__(self, directory):
        super().__init__()
        self.socket_path = os.path.join(directory, 'steps.sock')
        self.seen: list[Step] = []
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()

    def _setUp(self):
        server = _Server(self.socket_path, _Handler)
        server.steps = self
        thread = threading.Thread(target=server.serve_forever, daemon=True,
                                  kwargs={'poll_interval': 0.05})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def at(self, pattern, action, whose=None, times=1):
        """Have something done at a step.

        :param pattern: of its text, such as "before enter PROVE$".
        :param action: called with the Step, which waits for it.
        :param whose: the id of the only one of which it is.
        :param times: how often.
        :returns: a threading.Event, set once the action was done.
        """
        rule = _Rule(re.compile(pattern), whose, action, times,
                     threading.Event())
        with self._lock:
            self._rules.append(rule)
        return rule.happened

    def clear(self):
        """Step in no more, and forget what was seen."""
        with self._lock:
            self._rules.clear()
            self.seen.clear()

    def tell(self, step):
        """Do what a step is waited for with.

        :returns: the text of an error, or None.
        """
        with self._lock:
            self.seen.append(step)
            rule = next((each for each in self._rules if each.left and
                         each.whose in (None, step.whose) and
                         each.pattern.search(str(step))), None)
            if rule:
                rule.left -= 1
        if rule is None:
            return None
        try:
            rule.action(step)
        except Refused as e:
            return str(e)
        finally:
            rule.happened.set()
        return None


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 50


class _Handler(socketserver.StreamRequestHandler):

    def handle(self):
        line = self.rfile.readline()
        if not line:
            return
        answer = self.server.steps.tell(Step(**json.loads(line)))
        try:
            self.wfile.write(json.dumps(answer).encode() + b'\n')
        except OSError:
            # It was killed meanwhile.
            pass

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

"""Virtual environments for services with requirements of their own."""

import fcntl
import pathlib
import shutil
import sys

from tests.cloud import process

_TOX = pathlib.Path(__file__).resolve().parents[2] / '.tox'


def path(name):
    """Return where a virtual environment is, or will be."""
    return _TOX / name


def make(name, *requirements, setup=None):
    """Return a virtual environment below .tox; make it where it lacks.

    Several processes may ask at once: one makes it, the others wait.

    :param name: its name
    :param requirements: what is installed in it
    :param setup: Python to run in it once, with its path as the argument
    :returns: its path
    """
    venv = path(name)
    _TOX.mkdir(exist_ok=True)
    with open(f'{venv}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_for = venv / 'made-for'
        wanted = f'{sys.version}\n{requirements}\n{setup}\n'
        if not made_for.exists() or made_for.read_text() != wanted:
            shutil.rmtree(venv, ignore_errors=True)
            process.run(sys.executable, '-m', 'venv', venv)
            process.run(venv / 'bin/pip', 'install', '-q', *requirements)
            if setup:
                process.run(venv / 'bin/python', '-c', setup, venv)
            made_for.write_text(wanted)
    return venv

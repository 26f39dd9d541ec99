# SPDX-License-Identifier: Apache-2.0

"""Virtual environments for services with requirements of their own."""

import fcntl
from importlib import metadata
import os
import pathlib
import shutil
import sys
import sysconfig

from packaging import requirements

from tests.cloud import isolation
from tests.cloud import process

# tools/demo.sh has all of its own elsewhere. Programs name the interpreter by
# its path, so that a link which several checkouts share is followed.
_HERE = pathlib.Path(
    os.environ.get('OCTAVIA_HMSYNC_VIRTUALENVS') or
    pathlib.Path(__file__).resolve().parents[2] / '.tox').resolve()


def path(name):
    """Return where a virtual environment is, or will be."""
    return _HERE / name


def make(name, *requirements, setup=None):
    """Return a virtual environment; make it where it lacks.

    Several processes may ask at once: one makes it, the others wait.

    :param name: its name
    :param requirements: what is installed in it
    :param setup: Python to run in it once, with its path as the argument
    :returns: its path
    """
    def build(venv):
        process.run(sys.executable, '-m', 'venv', venv)
        process.run(*isolation.outside(
            venv / 'bin/pip', 'install', '-q', *requirements))
        if setup:
            process.run(venv / 'bin/python', '-c', setup, venv)

    return _ensure(name, f'{requirements}\n{setup}', build)


def make_library(name, *distributions):
    """Return a folder of modules for PYTHONPATH; make it where it lacks.

    :param distributions: what is in it, without what they require.
    """
    return _ensure(name, f'{distributions}', lambda folder: process.run(
        *isolation.outside(sys.executable, '-m', 'pip', 'install', '-q',
                           '--no-deps', '--target', folder, *distributions)))


def _ensure(name, what, build):
    folder = path(name)
    _HERE.mkdir(exist_ok=True)
    with open(f'{folder}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_for = folder / 'made-for'
        wanted = f'{sys.version}\n{what}\n'
        if not made_for.exists() or made_for.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            made_for.write_text(wanted)
    return folder


def make_linked(venv, required, programs=()):
    """Make a virtual environment of what is installed in this one.

    :param venv: where.
    :param required: requirements, as in requirements.txt; nothing else is
                     there.
    :param programs: console scripts of them to have there.
    """
    process.run(sys.executable, '-m', 'venv', '--without-pip', venv)
    _link_distributions(required, venv)
    for name in programs:
        script = pathlib.Path(process.program(name)).read_text()
        path = pathlib.Path(venv, 'bin', name)
        path.write_text(f'#!{venv}/bin/python\n' +
                        script.partition('\n')[2])
        path.chmod(0o755)


def _link_distributions(required, venv):
    """Link distributions of this environment into another.

    Those that pip would install for some requirements and nothing else, but
    pip takes half a minute for it. That none is missing "pip check" tells.

    :param required: requirements, as in requirements.txt.
    :param venv: path of a virtual environment of the same Python.
    """
    target = pathlib.Path(sysconfig.get_path(
        'purelib', 'venv', vars={'base': str(venv)}))
    done, pending = set(), [(line, {''}) for line in required]
    while pending:
        line, extras = pending.pop()
        wanted = requirements.Requirement(line)
        if wanted.marker and not any(
                wanted.marker.evaluate({'extra': e}) for e in extras):
            continue
        extras = frozenset({'', *wanted.extras})
        if (wanted.name, extras) in done:
            continue
        done.add((wanted.name, extras))
        distribution = metadata.distribution(wanted.name)
        # Not the commands: they name this environment's Python.
        for entry in {file.parts[0] for file in distribution.files} - {
                '..', '__pycache__'}:
            if not (target / entry).exists():
                (target / entry).symlink_to(distribution.locate_file(entry))
        pending += [(line, extras) for line in distribution.requires or ()]

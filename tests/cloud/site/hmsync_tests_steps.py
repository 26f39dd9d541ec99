# SPDX-License-Identifier: Apache-2.0

"""Tells the tests of each step of a replacement, or of what is done for a
cluster, before and after it.

Loaded by the processes of Octavia where SOCKET is in their environment; see
tests/cloud/steps.py, which says what happens then.
"""

import functools
import importlib
import importlib.abc
import json
import os
import re
import socket
import sys
import threading

SOCKET = 'OCTAVIA_HMSYNC_TESTS_STEPS'
# By its name a thread tells for whom it works.
_THREAD = re.compile(
    r'hmsync-(?:replace|cluster|cluster-urgent)-([0-9a-f-]{36})$')
_LOCK = 'octavia_hmsync.image.db.lock'
_AMPHORA = 'octavia_hmsync.db.octavia_amphora'
_MEMBER = 'octavia_hmsync.cluster.db.member'
_CLUSTER_LOCK = 'octavia_hmsync.cluster.db.lock'
_COMPUTE = 'octavia_hmsync.compute'


def _named(name):
    return lambda *args, **kwargs: name


def _second(_first, second, *_, **__):
    return second


def _of_work(work, *_, **__):
    return work.cluster_id


def _unreachable(text):
    from octavia_hmsync import exceptions
    return exceptions.AgentUnreachable(text)


def _no_compute(text):
    from octavia.common import exceptions
    return exceptions.ComputeUnknownException(exc=text)


def _not_connected(text):
    import requests
    return requests.exceptions.ConnectionError(text)


# By module: {function: (what tells of a call, what it raises if it is to, and
# whose it is, by its arguments, where the thread does not tell)}.
_STEPS = {
    'octavia_hmsync.image.replace.work': {
        'Work.enter': (lambda self, phase, **_: f'enter {phase}',
                       RuntimeError),
        'Listeners.update': (lambda self, _, amphora:
                             f'listeners {amphora.id}', _unreachable)},
    'octavia_hmsync.amphora.agent': {
        'Agent._ask': (lambda self, method, path, *_, **__:
                       f'agent {self.amphora_id} {method} {path}',
                       _unreachable)},
    'octavia_hmsync.watched_flow': {
        'Watch._on_end': (lambda self, state, details:
                          f"built {details.get('task_name')}",
                          RuntimeError)},
    _LOCK: {
        name: (_named(name), RuntimeError) for name in ('lock', 'unlock')},
    _AMPHORA: {
        name: (_named(name), RuntimeError)
        for name in ('set_going', 'set_gone', 'set_right', 'set_interface')},
    _MEMBER: {
        **{name: (_named(f'member {name}'), RuntimeError)
           for name in ('assign_amphora', 'set_mac', 'drain', 'unregister',
                        'take_over_slot', 'release_slot', 'delete')},
        'set_state': (lambda engine, member_id, old, new, **_:
                      f'member set_state {new}', RuntimeError),
        'add': (_named('member add'), RuntimeError, _second)},
    _CLUSTER_LOCK: {
        name: (_named(f'cluster {name}'), RuntimeError, _second)
        for name in ('lock', 'unlock')},
    'octavia_hmsync.cluster.db.cluster': {
        'delete': (_named('cluster delete'), RuntimeError, _second)},
    'octavia_hmsync.cluster.members.members': {
        name: (_named(f'member {name}'), RuntimeError, _of_work)
        for name in ('build', 'configure', 'remove')},
    'octavia_hmsync.cluster.distribution.ovs.distributors': {
        'Distributors.apply': (_named('tell distributors'), RuntimeError,
                               _second),
        '_put': (lambda client, *_: f'tell {client.url}', RuntimeError,
                 _second)},
    'hmsync_tests_compute': {
        'ComputeDriver._call': (lambda self, call, **_: f'compute {call}',
                                _no_compute)},
    # Neutron, Keystone, Glance, and the agents by Octavia's driver.
    'requests.sessions': {
        'Session.request': (lambda self, method, url, *_, **__:
                            f'{method} {url}', _not_connected)},
}


def _tell(when, what, whose):
    """Tell of a step, and wait for what is to happen.

    :returns: the text of an error, or None.
    """
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(os.environ[SOCKET])
            with client.makefile('rw') as stream:
                json.dump({'when': when, 'what': what, 'pid': os.getpid(),
                           'whose': whose}, stream)
                stream.write('\n')
                stream.flush()
                return json.loads(stream.readline() or 'null')
        except OSError:
            # The test has ended.
            return None


def _whose_thread(*_args, **_kwargs):
    found = _THREAD.match(threading.current_thread().name)
    return found and found[1]


def _wrap(function, describe, make_error, find=_whose_thread):
    @functools.wraps(function)
    def told(*args, **kwargs):
        whose = find(*args, **kwargs)
        if not whose:
            return function(*args, **kwargs)
        what = describe(*args, **kwargs)
        error = _tell('before', what, whose)
        if error:
            raise make_error(error)
        result = function(*args, **kwargs)
        error = _tell('after', what, whose)
        if error:
            raise make_error(error)
        return result
    return told


def _list_instances(self, amphora_id=None):
    """Tell what Nova would; in place of a driver that has no list."""
    from octavia_hmsync import compute
    prefix = compute.compat_compute.INSTANCE_PREFIX
    return [compute.Instance(each['id'], each['name'],
                             each['name'].removeprefix(prefix), each['state'],
                             None)
            for each in self._driver.list_instances(
                f'{prefix}{amphora_id or ""}')]


def _change(module):
    for name, how in _STEPS.get(module.__name__, {}).items():
        *owners, last = name.split('.')
        owner = functools.reduce(getattr, owners, module)
        setattr(owner, last, _wrap(getattr(owner, last), *how))
    if module.__name__ == _COMPUTE:
        module.Driver.list_instances = _list_instances


class _Finder(importlib.abc.MetaPathFinder):

    def find_spec(self, fullname, path, target=None):
        if fullname not in _STEPS and fullname != _COMPUTE:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, 'find_spec'):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    break
        else:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _change(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    """Have the steps told of, from now on."""
    for name in {*_STEPS, _COMPUTE} & set(sys.modules):
        _change(sys.modules[name])
    sys.meta_path.insert(0, _Finder())

# SPDX-License-Identifier: Apache-2.0

"""A call of every function of the repository of instances.

See ``tests.db_cases.calls``.
"""

from octavia_hmsync.cluster.db import instance as booted_repo

CALLS = []
FIRST = '00000000-0000-4000-8000-000000000001'


def _call(function):
    def add(method):
        CALLS.append((function, method.__name__))
        return method
    return add


class InstanceCalls:

    def reserve_instance(self):
        return FIRST, [], 'owner', 60

    def _make_instance(self, **values):
        booted_repo.reserve(self.engine, *self.reserve_instance())
        if values:
            booted_repo.record(self.engine, FIRST, 'owner', 60, **values)
        return FIRST

    _call(booted_repo.reserve)(reserve_instance)

    @_call(booted_repo.get)
    def get_instance(self):
        return self._make_instance(),

    @_call(booted_repo.get_all)
    def get_all_instances(self):
        self._make_instance()
        return ()

    @_call(booted_repo.get_ready)
    def get_ready_instances(self):
        self._make_instance(state='READY', compute_id='one', address='::1')
        return ()

    @_call(booted_repo.claim)
    def claim_instance(self):
        booted_repo.release(self.engine, self._make_instance(), 'owner')
        return FIRST, 'owner', 60

    @_call(booted_repo.record)
    def record_instance(self):
        return self._make_instance(), 'owner', 60, True

    @_call(booted_repo.release)
    def release_instance(self):
        return self._make_instance(), 'owner'

    @_call(booted_repo.order)
    def order_instance(self):
        return self._make_instance(state='READY'), 'ordered'

    @_call(booted_repo.leave)
    def leave_instance(self):
        return self._make_instance(state='READY'), 'ordered', [FIRST]

    @_call(booted_repo.forget)
    def forget_instance(self):
        return self._make_instance(), 'owner'

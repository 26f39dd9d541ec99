# SPDX-License-Identifier: Apache-2.0

"""A data plane of a distributor that forwards nothing: files in a directory.

As Open vSwitch does, it outlives the process. A test has it fail, or be slow,
by other files; see tests/cloud/distributor.py.
"""

import json
import os
import time

from octavia_hmsync.distributor.ovs import state as states
from octavia_hmsync import exceptions


class Backend:
    """Has a file for each VIP that is in force."""

    advance = staticmethod(states.advance)
    is_due = staticmethod(states.is_due)
    share = staticmethod(states.share)
    adopt = staticmethod(states.adopt)
    describe = staticmethod(states.describe)

    def __init__(self, conf):
        self.directory = conf.hmsync_distributor.openvswitch_rundir
        os.makedirs(self.directory, exist_ok=True)
        self._applied = {}

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _call(self, name, vip_id=''):
        with open(self._path('calls'), 'a') as calls:
            calls.write(f'{name} {vip_id}\n')
        slow = self._read(f'slow-{name}')
        if slow:
            time.sleep(float(slow))
        error = self._read(f'fail-{name}')
        if error:
            raise exceptions.VswitchUnavailable(error)
        if self._read(f'break-{name}'):
            raise KeyError(name)

    def _read(self, name):
        try:
            with open(self._path(name)) as content:
                return content.read()
        except FileNotFoundError:
            return None

    def start(self):
        self._call('start')

    def stop(self):
        self._call('stop')

    def read_pins(self, vip_id):
        self._call('read_pins', vip_id)
        return json.loads(self._read(f'pins-{vip_id}') or '[]')

    def take_pins(self, vip_id, document, pins):
        self._call('take_pins', vip_id)
        with open(self._path(f'pins-{vip_id}'), 'w') as content:
            content.write(json.dumps(pins))

    def apply(self, vip_id, document, previous=None, now=None, keep=None,
              down=()):
        self._call('apply', vip_id)
        self.down = set(down)
        state = self.advance(document, previous, now)
        content = json.dumps({'document': document.to_dict(), 'state': state})
        if self._read(f'vip-{vip_id}') != content:
            with open(self._path(f'new-{vip_id}'), 'w') as new:
                new.write(content)
            os.rename(self._path(f'new-{vip_id}'), self._path(f'vip-{vip_id}'))
            with open(self._path('calls'), 'a') as calls:
                calls.write(f'change {vip_id}\n')
        self._applied[vip_id] = content
        return state

    def remove(self, vip_id):
        self._call('remove', vip_id)
        self._applied.pop(vip_id, None)
        try:
            os.unlink(self._path(f'vip-{vip_id}'))
        except FileNotFoundError:
            return False
        return True

    def list_vips(self):
        self._call('list_vips')
        return [name.removeprefix('vip-')
                for name in os.listdir(self.directory)
                if name.startswith('vip-')]

    def read_traffic(self, vip_id, macs):
        self._call('read_traffic', vip_id)
        document = json.loads(self._read(f'vip-{vip_id}'))['document']
        slots = {member['mac']: member['slot']
                 for member in document['members']}
        return {mac: {'packets': 10 + slots[mac], 'bytes': 1000}
                for mac in macs}

    def read_counters(self, vip_id, macs):
        self._call('read_counters', vip_id)
        return {'members': {
            mac: {**sent, 'pins': 1, 'connections': 2}
            for mac, sent in self.read_traffic(vip_id, macs).items()},
            'claims': 2}

    def dial(self, vip_id):
        self._call('dial', vip_id)
        raise exceptions.VswitchUnavailable('Nobody is to be seen here.')

    def announce(self, vip_id):
        self._call('announce', vip_id)

    def count_lost(self):
        return None

    def measure_load(self):
        return {'flows': len(self._applied), 'max_flows': 1000,
                'cached_flows': 0, 'max_cached_flows': 1000, 'full': False,
                'cache_full': False, 'full_vips': []}

    def has_lost_flows(self):
        self._call('has_lost_flows')
        return [vip_id for vip_id, content in self._applied.items()
                if self._read(f'vip-{vip_id}') != content]

    def check(self):
        self._call('check')
        return '0.tests'

# SPDX-License-Identifier: Apache-2.0

"""What a consumer can rely on: names, versions, fields and their types."""

import dataclasses
import hashlib
import json
import pathlib
import typing

from oslotest import base

from octavia_hmsync.cluster import payloads as cluster_payloads
from octavia_hmsync.image import payloads as image_payloads
from octavia_hmsync.sync import payloads
from tests import metrics

TOP = pathlib.Path(__file__).resolve().parents[3]
SAMPLES = TOP / 'doc/notification_samples'
GUIDE = TOP / 'doc/source/admin/notifications.rst'
MODULES = (payloads, image_payloads, cluster_payloads)
ALL = tuple(p for module in MODULES for p in module.ALL)

# How the types of fields look in JSON.
_JSON_TYPES = {'tuple': 'list', 'datetime': 'str'}

# Version and fingerprint of each event. When a test finds another one: a new
# field calls for a new minor version, and one that is gone, or means
# something else, or another priority, for a new major one. Then correct this
# table, the sample and the guide.
KNOWN = {
    'health_manager.up': ('1.0', 'eeea6f333ab3'),
    'health_manager.draining': ('1.0', 'eeea6f333ab3'),
    'health_manager.down': ('1.0', '0ce3b2e6e3d5'),
    'generation.published': ('1.0', 'c7187f3bf204'),
    'generation.completed': ('1.0', 'feca0498474a'),
    'generation.rolled_back': ('1.0', 'a818e39322d3'),
    'amphora.unreachable': ('1.0', 'a72e43ef401f'),
    'amphora.rejected': ('1.0', 'a72e43ef401f'),
    'amphora.unsupported': ('1.0', 'a72e43ef401f'),
    'amphora.recovered': ('1.0', 'a7a065fe839e'),
    'amphora.not_adopted': ('1.0', '1ce04c903c3c'),
    'failover_guard.holding': ('1.1', '958f648370d1'),
    'failover_guard.released': ('1.0', 'f82b5f7ef55f'),
    'order.given': ('1.0', 'c24acdb6e49d'),
    'image_rollout.started': ('1.1', '93a1e21c7712'),
    'image_rollout.paused': ('1.1', 'dbaece1c7c4c'),
    'image_rollout.resumed': ('1.1', 'dbaece1c7c4c'),
    'image_rollout.cancelled': ('1.1', 'dbaece1c7c4c'),
    'image_rollout.halted': ('1.1', '326a653d2588'),
    'image_rollout.done': ('1.1', 'dbaece1c7c4c'),
    'image_replacement.started': ('1.0', '1276b89f64b1'),
    'image_replacement.done': ('1.0', 'ef38efda0dc2'),
    'image_replacement.failed': ('1.0', 'c44fa6d3e5e4'),
    'image_replacement.skipped': ('1.0', '1164ef22bd60'),
    'image_replacement.refused': ('1.0', 'c44fa6d3e5e4'),
    'image_replacement.cancelled': ('1.0', 'ef38efda0dc2'),
    'cluster.created': ('1.0', '4493d141684a'),
    'cluster.online': ('1.0', '4493d141684a'),
    'cluster.degraded': ('1.0', 'fe7d6b507e02'),
    'cluster.error': ('1.0', 'e84ed3cc4774'),
    'cluster.offline': ('1.0', '4493d141684a'),
    'cluster.vip_moved': ('1.0', '2203a6009014'),
    'cluster_member.added': ('1.0', '14579ea8135d'),
    'cluster_member.drained': ('1.0', '0e8d06d8fd99'),
    'cluster_member.dead': ('1.0', '1e22b0bd5654'),
    'cluster_member.replaced': ('1.0', '6fd8d708a8b3'),
    'distributor.up': ('1.0', 'a08438b7241c'),
    'distributor.down': ('1.0', 'cd9c9e0a350f'),
}


def fields(payload_class):
    """Names and JSON types of the fields, e.g. {'number': {'int'}}."""
    hints = typing.get_type_hints(payload_class)
    return {field.name: {
        _JSON_TYPES.get(hint.__name__, hint.__name__)
        for hint in typing.get_args(hints[field.name]) or
        [hints[field.name]]} for field in dataclasses.fields(payload_class)}


def fingerprint(payload_class):
    shape = [payload_class.PRIORITY, sorted(
        (name, sorted(types)) for name, types in
        fields(payload_class).items())]
    return hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:12]


def name(payload_class):
    prefix, name = payload_class.EVENT_TYPE.split('.', 1)
    assert prefix == 'octavia_hmsync'
    return name


def sample(payload_class):
    return json.loads((SAMPLES / f'{name(payload_class)}.json').read_text())


class TestPayloads(base.BaseTestCase):

    def test_a_change_has_a_new_version(self):
        self.assertEqual(KNOWN, {
            name(p): (p.VERSION, fingerprint(p)) for p in ALL})

    def test_all_are_known(self):
        for module in MODULES:
            defined = {value for value in vars(module).values() if isinstance(
                value, type) and hasattr(value, 'VERSION')}
            self.assertEqual(defined, set(module.ALL))

    def test_each_has_a_sample(self):
        self.assertEqual({f'{name(p)}.json' for p in ALL},
                         {path.name for path in SAMPLES.iterdir()})

    def test_samples_are_what_is_sent(self):
        for payload_class in ALL:
            found = sample(payload_class)
            self.assertEqual(payload_class.EVENT_TYPE, found['event_type'])
            self.assertEqual(payload_class.PRIORITY.upper(),
                             found['priority'])
            values = dict(found['payload'])
            self.assertEqual(payload_class.VERSION, values.pop('version'))
            self.assertEqual(
                found['payload'], payload_class(**values).to_dict())
            for field, types in fields(payload_class).items():
                self.assertIn(type(values[field]).__name__, types,
                              f'{payload_class.EVENT_TYPE} {field}')

    def test_guide(self):
        """It is made of the classes, and finds each of them."""
        self.assertIn('\n.. notifications::\n', GUIDE.read_text())
        self.assertEqual(
            {(p.EVENT_TYPE, p.PRIORITY.upper(), p.VERSION) for p in ALL},
            {event[:3] for event in metrics.reference().find_events()})

    def test_plain_values(self):
        """Nothing that only Python knows."""
        for payload_class in ALL:
            values = sample(payload_class)['payload']
            del values['version']
            payload = payload_class(**{
                key: tuple(value) if isinstance(value, list) else value
                for key, value in values.items()})
            self.assertEqual(json.loads(json.dumps(payload.to_dict())),
                             payload.to_dict())

    def test_many_amphorae(self):
        """Each is in one of them, none of which is large."""
        ids = [f'{n:036}' for n in range(250)]
        told = payloads.split(payloads.FailoverGuardHolding, ids[::-1], 300,
                              None)
        self.assertEqual([100, 100, 50], [len(p.amphora_ids) for p in told])
        self.assertEqual(ids, [i for p in told for i in p.amphora_ids])
        self.assertEqual({300}, {p.failover_hold_max for p in told})
        self.assertEqual([], payloads.split(
            payloads.FailoverGuardReleased, []))

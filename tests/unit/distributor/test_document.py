# SPDX-License-Identifier: Apache-2.0

import json
import random

import hypothesis
from hypothesis import strategies as st
import jsonschema

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import schemas
from octavia_hmsync import exceptions
from tests.unit import base
from tests.unit.distributor import examples

MEMBER = examples.RAW['members'][0]
PORT = examples.RAW['port']


def changed_member(**changes):
    return examples.make_raw(members=[{**MEMBER, **changes}])


def without(raw, field):
    return {name: value for name, value in raw.items() if name != field}


# What is wrong, and the one line that says so.
FAULTS = [
    (None, "the document: None is not an object"),
    ([], "the document: [] is not an object"),
    ({}, "version: is missing"),
    (without(examples.RAW, 'members'), 'members: is missing'),
    (examples.make_raw(colour='red'),
     "the document: has an unknown field 'colour'; there are version, "
     "active, algorithm, affinity, addresses, port, pin_timeout, members, "
     "partners, probe"),
    (examples.make_raw(version='7'), "version: '7' is not a whole number"),
    (examples.make_raw(version=True), 'version: True is not a whole number'),
    (examples.make_raw(version=7.0), 'version: 7.0 is not a whole number'),
    (examples.make_raw(version=0), 'version: 0 is less than 1'),
    (examples.make_raw(version=2 ** 53),
     'version: 9007199254740992 is more than 9007199254740991'),
    (examples.make_raw(active=1), 'active: 1 is not true or false'),
    (examples.make_raw(algorithm='RING'),
     "algorithm: 'RING' is none of HASH"),
    (examples.make_raw(affinity='flow'),
     "affinity: 'flow' is none of FLOW, SOURCE_IP"),
    (examples.make_raw(addresses='10.0.0.5'),
     "addresses: '10.0.0.5' is not a list"),
    (examples.make_raw(addresses=[]), 'addresses: has fewer than 1'),
    (examples.make_raw(addresses=[f'10.0.0.{n}' for n in range(1, 12)]),
     'addresses: has more than 10'),
    *((examples.make_raw(addresses=['10.0.0.5', address]),
       f"addresses[1]: '{address}' is not an address that a load balancer "
       f"could have")
      for address in ('10.0.0.256', '127.0.0.1', '::1', '0.0.0.0', 'fe80::1',
                      '224.0.0.1', 'ff02::1', '2001:db8::1%eth0',
                      '10.0.0.0/24', '')),
    (examples.make_raw(addresses=[5]), 'addresses[0]: 5 is not text'),
    (examples.make_raw(addresses=['fd00::5', 'fd00:0::5']),
     'addresses: fd00::5 is there twice'),
    (examples.make_raw(port={**PORT, 'id': 'x'}),
     "port.id: 'x' is not a UUID in lower case"),
    (examples.make_raw(port={**PORT, 'mac': '01:00:5e:00:00:01'}),
     "port.mac: '01:00:5e:00:00:01' is not the MAC address of one device"),
    (examples.make_raw(port={**PORT, 'mtu': 575}),
     'port.mtu: 575 is less than 576'),
    (examples.make_raw(port=without(PORT, 'mtu')), 'port.mtu: is missing'),
    (examples.make_raw(pin_timeout=0), 'pin_timeout: 0 is less than 1'),
    (examples.make_raw(partners='x'), "partners: 'x' is not a list"),
    (examples.make_raw(partners=['x']),
     "partners[0]: 'x' is not the MAC address of one device"),
    (examples.make_raw(partners=[MEMBER['mac']]),
     f'mac: {MEMBER["mac"]} is there twice'),
    (examples.make_raw(partners=[examples.make_mac(n) for n in range(90, 94)]),
     'partners: has more than 3'),
    (examples.make_raw(members={}), 'members: {} is not a list'),
    (examples.make_raw(members=['a']), "members[0]: 'a' is not an object"),
    (changed_member(slot=-1), 'members[0].slot: -1 is less than 0'),
    (changed_member(slot=256), 'members[0].slot: 256 is more than 255'),
    (changed_member(state='DOWN'),
     "members[0].state: 'DOWN' is none of ACTIVE, DRAINING, DEAD"),
    (changed_member(mac='fa:16'),
     "members[0].mac: 'fa:16' is not the MAC address of one device"),
    (changed_member(mac=5), 'members[0].mac: 5 is not text or null'),
    (changed_member(mac=None),
     'members: the one of slot 0 is ACTIVE and has no mac'),
    (examples.make_raw(members=[MEMBER, {**MEMBER, 'slot': 1}]),
     f'members: id: {MEMBER["id"]} is there twice'),
    (examples.make_raw(members=[
        MEMBER, {**MEMBER, 'id': examples.make_id(99)}]),
     'members: slot: 0 is there twice'),
    (examples.make_raw(members=[
        MEMBER, {**MEMBER, 'id': examples.make_id(99), 'slot': 1,
                 'mac': MEMBER['mac'].upper()}]),
     f'mac: {MEMBER["mac"]} is there twice'),
    (examples.make_raw(probe={'addresses': ['10.0.0.9'], 'ports': [80, 80]}),
     'probe.ports: 80 is there twice'),
    (examples.make_raw(probe={'addresses': ['10.0.0.9'], 'ports': []}),
     'probe.ports: has fewer than 1'),
    (examples.make_raw(probe=None), 'probe: None is not an object'),
    (examples.make_raw(probe={'addresses': ['10.0.0.5'], 'ports': [80]}),
     'probe.addresses: 10.0.0.5 is one of the VIP, and no member would answer '
     'to it'),
    (changed_member(mac=PORT['mac']), f'mac: {PORT["mac"]} is there twice'),
    (changed_member(mac=MEMBER['mac'] + '\n'),
     f"members[0].mac: '{MEMBER['mac']}\\n' has more than 17 letters"),
    (changed_member(id='a\n\x1b[31m' + 'b' * 100),
     "members[0].id: 'a\\n\\x1b[31m" + 'b' * 48 + '... is not a UUID in lower '
     'case'),
]


class TestParse(base.TestCase):

    def test_faults(self):
        for raw, message in FAULTS:
            with self.subTest(message):
                error = self.assertRaises(exceptions.InvalidDocument,
                                          doc.parse, raw)
                self.assertEqual(message, str(error))

    def test_form(self):
        """What may be written in several ways has one form."""
        raw = examples.make_raw(
            addresses=['FD00:0::5', '10.0.0.5'],
            members=examples.RAW['members'][::-1],
            port={**PORT, 'mac': PORT['mac'].upper()})
        self.assertEqual(doc.parse(examples.RAW), doc.parse(raw))
        self.assertEqual(examples.RAW, doc.parse(raw).to_dict())

    def test_no_members(self):
        self.assertEqual((), examples.make_document(members=()).members)

    @hypothesis.given(examples.raw_documents(), st.randoms())
    def test_what_is_right(self, raw, chance):
        document = doc.parse(raw)
        self.assertEqual(document, doc.parse(json.loads(
            json.dumps(document.to_dict()))))
        chance.shuffle(raw['members'])
        chance.shuffle(raw['addresses'])
        self.assertEqual(document, doc.parse(raw))
        jsonschema.Draft202012Validator(schemas.DOCUMENT).validate(raw)

    @hypothesis.given(
        examples.raw_documents(),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() |
            st.text() | st.just('ACTIVE') | st.just('10.0.0.9'),
            lambda inner: st.lists(inner, max_size=3) |
            st.dictionaries(st.text(), inner, max_size=3), max_leaves=5),
        st.randoms())
    def test_anything(self, raw, value, chance):
        """What is wrong has one line; nothing else is raised."""
        def place(inside):
            key = chance.choice(list(inside) if isinstance(inside, dict)
                                else range(len(inside)))
            if chance.random() < .6 and inside[key] and isinstance(
                    inside[key], dict | list):
                place(inside[key])
            else:
                inside[key] = value

        place(raw)
        try:
            document = doc.parse(raw)
        except exceptions.InvalidDocument as e:
            self.assertRegex(str(e), r'\A[ -~]{1,300}\Z')
        else:
            self.assertEqual(document, doc.parse(document.to_dict()))

    def test_ids(self):
        self.assertEqual(examples.VIP_ID, doc.check_vip_id(examples.VIP_ID))
        for wrong in ('', 'x', '../' + examples.VIP_ID, None,
                      examples.VIP_ID + '\n'):
            error = self.assertRaises(exceptions.InvalidDocument,
                                      doc.check_vip_id, wrong)
            self.assertIn('the id of the VIP: ', str(error))

    def test_versions(self):
        self.assertEqual(5, doc.check_version(5))
        for wrong in (0, -1, '5', 1.0, True, 2 ** 53):
            self.assertRaises(exceptions.InvalidDocument, doc.check_version,
                              wrong)


class TestVersionRule(base.TestCase):

    def test_first(self):
        self.assertTrue(doc.is_due(examples.make_document(1), None))

    def test_newer(self):
        self.assertTrue(doc.is_due(examples.make_document(8),
                                   examples.make_document(7)))

    def test_same(self):
        self.assertFalse(doc.is_due(examples.make_document(7),
                                    examples.make_document(7)))

    def test_older(self):
        error = self.assertRaises(
            exceptions.VersionConflict, doc.is_due,
            examples.make_document(6), examples.make_document(7))
        self.assertEqual(7, error.in_force)
        self.assertEqual('version 6 is older than version 7, which is in '
                         'force', str(error))

    def test_looks_need_no_version(self):
        """Who does not know of them takes nothing back."""
        old = examples.make_document(7)
        one, other = [examples.make_document(7, probe={
            'addresses': ['10.0.0.9'], 'ports': ports})
            for ports in ([80], [80, 443])]
        for document, in_force, expected in (
                (one, old, True), (old, one, False), (other, one, True),
                (one, one, False)):
            self.assertEqual(expected, doc.is_due(document, in_force))
        self.assertRaises(
            exceptions.VersionConflict, doc.is_due,
            examples.make_document(7, active=False), one)
        self.assertTrue(doc.is_due(examples.make_document(8), one))

    def test_same_version_of_other_content(self):
        error = self.assertRaises(
            exceptions.VersionConflict, doc.is_due,
            examples.make_document(7, active=False),
            examples.make_document(7))
        self.assertEqual(7, error.in_force)
        self.assertIn('other content', str(error))

    @hypothesis.given(st.lists(st.tuples(st.integers(1, 5), st.booleans()),
                               max_size=12))
    def test_highest_version_is_in_force(self, sent):
        in_force = None
        for version, active in sent:
            document = examples.make_document(version, active=active)
            try:
                if doc.is_due(document, in_force):
                    in_force = document
                self.assertEqual(document, in_force)
            except exceptions.VersionConflict as e:
                self.assertEqual(in_force.version, e.in_force)
        if sent:
            # And of those of one version the first.
            highest = max(version for version, _ in sent)
            self.assertEqual(
                next(one for one in sent if one[0] == highest),
                (in_force.version, in_force.active))


class TestLook(base.TestCase):

    def choose(self, addresses, own):
        document = examples.make_document(
            addresses=addresses, probe={'addresses': own, 'ports': [80]})
        return doc.choose_probe(document)

    def test_choose(self):
        self.assertIsNone(doc.choose_probe(examples.make_document()))
        self.assertIsNone(self.choose(['10.0.0.5'], ['fd00::9']))
        for addresses, own, expected in (
                (['10.0.0.5'], ['10.0.0.9'], ('10.0.0.5', '10.0.0.9')),
                (['10.0.0.5', '10.0.7.5'], ['10.0.7.9'],
                 ('10.0.7.5', '10.0.7.9')),
                (['10.0.0.5', 'fd00::5'], ['fd00::9', '10.9.0.9'],
                 ('10.0.0.5', '10.9.0.9')),
                (['fd00::5', 'fd01::5'], ['fd01::9'],
                 ('fd01::5', 'fd01::9'))):
            found = self.choose(addresses, own)
            self.assertEqual(expected, (found.vip, found.own))


class TestShow(base.TestCase):

    def test_length(self):
        self.assertEqual("'a'", doc.show('a'))
        self.assertEqual(63, len(doc.show('a' * 1000)))
        self.assertEqual("'\\x07\\u20ac'", doc.show('\a\u20ac'))

    def test_any(self):
        chance = random.Random(1)
        for _ in range(100):
            text = ''.join(chr(chance.randrange(0x3000)) for _ in range(99))
            self.assertRegex(doc.show(text), r'\A[ -~]*\Z')

# SPDX-License-Identifier: Apache-2.0

"""The VIP document: what a distributor is to do for one load balancer. Pure.

Controllers write it, distributors obey it; both read it with what is here.
"""

from collections import abc
import dataclasses
import ipaddress
import typing

import jsonschema

from octavia_hmsync.distributor import schemas
from octavia_hmsync import exceptions

FLOW = schemas.FLOW
SOURCE_IP = schemas.SOURCE_IP
ACTIVE = schemas.ACTIVE
DRAINING = schemas.DRAINING
DEAD = schemas.DEAD

# DSCP of packets that may be of connections of other members, of those for
# private use: whoever does not know the connection drops its own RST.
MARK = 0x37

# Of what somebody wrote, for whoever reads the message.
_SHOWN = 60

_TYPES = {'string': 'text', 'integer': 'a whole number', 'array': 'a list',
          'object': 'an object', 'boolean': 'true or false', 'null': 'null',
          'number': 'a number'}
_PATTERNS = {schemas.UUID: 'a UUID in lower case',
             schemas.MAC: 'the MAC address of one device'}


@dataclasses.dataclass(frozen=True)
class Port:
    """The Neutron port of a distributor for one VIP; mac in lower case."""

    id: str
    mac: str
    mtu: int


@dataclasses.dataclass(frozen=True)
class Member:
    """One amphora of the cluster, or the empty slot that it left.

    :ivar id: of the amphora.
    :ivar peer_group: who shares its stick tables.
    :ivar mac: of its port, in lower case; may be None if DEAD.
    :ivar state: ACTIVE, DRAINING or DEAD.
    """

    id: str
    slot: int
    peer_group: int
    mac: str | None
    state: str


@dataclasses.dataclass(frozen=True)
class Peer:
    """Where the haproxy of a member itself answers.

    :ivar id: of the amphora.
    :ivar address: of its own, not of the VIP.
    """

    id: str
    address: str
    port: int


@dataclasses.dataclass(frozen=True)
class Probe:
    """How the front ends of members are probed.

    :ivar addresses: of the distributor's own port, IPv4 before IPv6.
    :ivar ports: TCP ports that all members serve, in order.
    :ivar peers: where haproxy itself answers, by id; none where it is not
                 asked.
    """

    addresses: tuple[str, ...]
    ports: tuple[int, ...]
    peers: tuple[Peer, ...] = ()


@dataclasses.dataclass(frozen=True)
class Document:
    """What a distributor is to do for one VIP.

    Two of them are equal if they ask for the same: addresses and members are
    in order, however they were written.

    :ivar active: whether it answers for the addresses.
    :ivar algorithm: HASH.
    :ivar affinity: FLOW or SOURCE_IP.
    :ivar addresses: of the VIP, IPv4 before IPv6.
    :ivar pin_timeout: seconds.
    :ivar members: by slot.
    :ivar partners: MAC addresses of the ports of other distributors for it,
                    in order.
    :ivar probe: how to probe them; None if they are not probed.
    """

    version: int
    active: bool
    algorithm: str
    affinity: str
    addresses: tuple[str, ...]
    port: Port
    pin_timeout: int
    members: tuple[Member, ...]
    partners: tuple[str, ...] = ()
    probe: Probe | None = None

    def to_dict(self) -> dict[str, typing.Any]:
        """Return it as JSON has it."""
        raw = {**dataclasses.asdict(self),
               'addresses': list(self.addresses),
               'members': [dataclasses.asdict(member)
                           for member in self.members],
               'partners': list(self.partners)}
        if not self.partners:
            del raw['partners']
        del raw['probe']
        if self.probe is not None:
            raw['probe'] = {'addresses': list(self.probe.addresses),
                            'ports': list(self.probe.ports)}
            if self.probe.peers:
                raw['probe']['peers'] = [dataclasses.asdict(peer)
                                         for peer in self.probe.peers]
        return raw


def parse(raw: object) -> Document:
    """Read a document.

    :param raw: what was JSON.
    :raises InvalidDocument: if it is none; with the field and the reason, in
                             one line.
    """
    _check(_DOCUMENT, raw)
    fields = typing.cast(dict[str, typing.Any], raw)
    members = tuple(sorted(
        (Member(**{**member, 'mac': _lower(member['mac'])})
         for member in fields['members']), key=lambda member: member.slot))
    port = Port(**{**fields['port'], 'mac': fields['port']['mac'].lower()})
    partners = tuple(sorted(mac.lower()
                            for mac in fields.get('partners', ())))
    probe = fields.get('probe') and Probe(
        _sort(fields['probe']['addresses']),
        tuple(sorted(fields['probe']['ports'])),
        tuple(sorted((Peer(**{**peer, 'address': str(ipaddress.ip_address(
            peer['address']))}) for peer in fields['probe'].get('peers', ())),
            key=lambda peer: peer.id)))
    document = Document(**{
        **fields, 'addresses': _sort(fields['addresses']), 'port': port,
        'members': members, 'partners': partners, 'probe': probe})
    _check_uniqueness(document)
    return document


def _sort(addresses: abc.Iterable[str]) -> tuple[str, ...]:
    return tuple(str(ip) for ip in sorted(
        map(ipaddress.ip_address, addresses),
        key=lambda ip: (ip.version, int(ip))))


def check_vip_id(vip_id: object) -> str:
    """Return the id of a VIP; raise InvalidDocument if it is none."""
    _check(_VIP_ID, vip_id, 'the id of the VIP')
    return str(vip_id)


def check_version(version: object) -> int:
    """Return a version, if it is one; raise InvalidDocument if it is none."""
    _check(_VERSION, version, 'version')
    return typing.cast(int, version)


def check_transition(raw: object) -> dict[str, typing.Any]:
    """Return a transition; raise InvalidDocument if it is none."""
    _check(_TRANSITION, raw, 'the transition')
    return typing.cast(dict[str, typing.Any], raw)


def is_due(document: Document, in_force: Document | None) -> bool:
    """Tell whether a document is to be put in force.

    How members are probed changes nothing for anybody's traffic: a document
    of the same version may tell it, and one that does not takes nothing back.

    :returns: False if it is in force already.
    :raises VersionConflict: if it is not newer than what is in force.
    """
    if in_force is None or document.version > in_force.version:
        return True
    if document.version == in_force.version and dataclasses.replace(
            document, probe=in_force.probe) == in_force:
        return document.probe not in (None, in_force.probe)
    if document.version == in_force.version:
        raise exceptions.VersionConflict(
            f'version {document.version} is in force with other content: '
            f'each change needs a version of its own', in_force.version)
    raise exceptions.VersionConflict(
        f'version {document.version} is older than version '
        f'{in_force.version}, which is in force', in_force.version)


@dataclasses.dataclass(frozen=True)
class ProbePair:
    """Between which addresses members are probed.

    :ivar vip: of the VIP.
    :ivar own: of the distributor.
    """

    vip: str
    own: str


def choose_probe(document: Document) -> ProbePair | None:
    """Choose the addresses with which members are probed.

    :returns: a pair of one family that is likely to be in one subnet, as a
              member answers by its gateway otherwise; None without probes.
    """
    if document.probe is None:
        return None
    pairs = [(vip, own) for vip in map(ipaddress.ip_address,
                                       document.addresses)
             for own in map(ipaddress.ip_address, document.probe.addresses)
             if vip.version == own.version]
    if not pairs:
        return None
    vip, own = min(pairs, key=lambda pair: (
        pair[0].version, (int(pair[0]) ^ int(pair[1])).bit_length()))
    return ProbePair(str(vip), str(own))


def choose_peers(document: Document,
                 pair: ProbePair | None) -> dict[str, Peer]:
    """Return where members are called, by id.

    :param pair: with which they are probed; those of another family are
                 not called.
    """
    if pair is None or document.probe is None:
        return {}
    version = ipaddress.ip_address(pair.own).version
    return {peer.id: peer for peer in document.probe.peers
            if ipaddress.ip_address(peer.address).version == version}


def _lower(mac: str | None) -> str | None:
    return mac and mac.lower()


def _is_usable_address(text: object) -> bool:
    if not isinstance(text, str):
        return True  # Its type is another check's.
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (ip.is_multicast or ip.is_unspecified or ip.is_loopback or
                ip.is_link_local or '%' in text)


def _make_validator(
        schema: schemas.Schema) -> jsonschema.Draft202012Validator:
    checker = jsonschema.FormatChecker(formats=())
    checker.checks('ip')(_is_usable_address)
    # In JSON true is no number, and 1.0 is the whole number 1: here it is
    # none, as it would be written back in another way.
    types = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        'integer', lambda _checker, value: type(value) is int)
    validator = jsonschema.validators.extend(
        jsonschema.Draft202012Validator, type_checker=types)
    return validator(schema, format_checker=checker)


_DOCUMENT = _make_validator(schemas.DOCUMENT)
_VIP_ID = _make_validator(schemas.VIP_ID)
_VERSION = _make_validator(schemas.VERSION)
_TRANSITION = _make_validator(schemas.TRANSITION)


def _check(validator: jsonschema.Draft202012Validator, raw: object,
           name: str = 'the document') -> None:
    # The first by place, so that the same fault has the same message.
    errors = sorted(validator.iter_errors(raw),
                    key=lambda error: [str(part) for part in error.path])
    if errors:
        where, reason = _explain(errors[0])
        raise exceptions.InvalidDocument(f'{where or name}: {reason}')


def _explain(error: jsonschema.ValidationError) -> tuple[str, str]:
    where, value = _name(error.path), error.validator_value
    shown = show(error.instance)
    match error.validator:
        case 'required':
            missing = [name for name in value if name not in error.instance]
            return _join(where, missing[0]), 'is missing'
        case 'additionalProperties':
            known = error.schema['properties']
            unknown = sorted(set(error.instance) - set(known))
            return (where, f'has an unknown field {show(unknown[0])}; there '
                           f'are {", ".join(known)}')
        case 'type':
            types = value if isinstance(value, list) else [value]
            words = ' or '.join(_TYPES[name] for name in types)
            return where, f'{shown} is not {words}'
        case 'enum':
            return where, f'{shown} is none of {", ".join(value)}'
        case 'pattern':
            return where, f'{shown} is not {_PATTERNS[value]}'
        case 'maxLength':
            return where, f'{shown} has more than {value} letters'
        case 'format':
            return where, (f'{shown} is not an address that a load balancer '
                           f'could have')
        case 'minimum':
            return where, f'{shown} is less than {value}'
        case 'maximum':
            return where, f'{shown} is more than {value}'
        case 'minItems':
            return where, f'has fewer than {value}'
        case 'maxItems':
            return where, f'has more than {value}'
    raise AssertionError(f'no words for {error.validator}')


def _name(path: abc.Iterable[str | int]) -> str:
    name = ''
    for part in path:
        name = (f'{name}[{part}]' if isinstance(part, int)
                else _join(name, part))
    return name


def _join(where: str, name: str) -> str:
    return f'{where}.{name}' if where else name


def show(value: object) -> str:
    """Return what somebody sent so that it can stand in a message.

    In ASCII, without control characters, and no longer than a line bears.
    """
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + '...'


def _check_uniqueness(document: Document) -> None:
    _check_unique('addresses', document.addresses)
    if document.probe:
        _check_unique('probe.addresses', document.probe.addresses)
        _check_unique('probe.ports', document.probe.ports)
        _check_unique('probe.peers: id',
                      [peer.id for peer in document.probe.peers])
        for address in document.probe.addresses:
            if address in document.addresses:
                raise exceptions.InvalidDocument(
                    f'probe.addresses: {address} is one of the VIP, and no '
                    f'member would answer to it')
    members = document.members
    _check_unique('members: slot', [member.slot for member in members])
    _check_unique('members: id', [member.id for member in members])
    _check_unique('mac', [document.port.mac, *document.partners,
                          *(member.mac for member in members if member.mac)])
    for member in members:
        if member.mac is None and member.state != DEAD:
            raise exceptions.InvalidDocument(
                f'members: the one of slot {member.slot} is {member.state} '
                f'and has no mac')


def _check_unique(name: str, values: abc.Iterable[object]) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise exceptions.InvalidDocument(
                f'{name}: {value} is there twice')
        seen.add(value)

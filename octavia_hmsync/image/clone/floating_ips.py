# SPDX-License-Identifier: Apache-2.0

"""Moves floating IPs, by compare-and-swap on their revision."""

import dataclasses
import ipaddress

from octavia_hmsync import exceptions
from octavia_hmsync.image.clone import cloud

_STALE = 412


@dataclasses.dataclass(frozen=True)
class FloatingIP:
    """A floating IP, and its target."""

    id: str
    address: str
    port_id: str | None
    fixed_address: str | None
    revision: int | None


@dataclasses.dataclass(frozen=True)
class Move:
    """A floating IP, and its new target."""

    floating_ip: FloatingIP
    port_id: str
    fixed_address: str


def _read(raw):
    return FloatingIP(raw['id'], raw['floating_ip_address'], raw['port_id'],
                      raw['fixed_ip_address'], raw.get('revision_number'))


def plan_moves(found, source, target):
    """Plan how floating IPs move to a load balancer with as many VIPs."""
    by_address = {ipaddress.ip_address(ours[1]): theirs
                  for ours, theirs in zip(source.vips, target.vips)}
    first = target.vips[0]
    moves = []
    for each in found:
        port_id, address, _subnet = by_address.get(
            ipaddress.ip_address(each.fixed_address), first)
        moves.append(Move(each, port_id, address))
    return moves


class FloatingIPs:
    """The requests of the commands to Neutron."""

    def __init__(self, api: cloud.API):
        self._api = api

    def get_all(self, tree):
        """Return the floating IPs of all VIPs of a load balancer."""
        found: dict[str, FloatingIP] = {}
        for port_id in dict.fromkeys(vip[0] for vip in tree.vips):
            if port_id:
                found.update((raw['id'], _read(raw))
                             for raw in self._api.get_all(
                                 '/floatingips', 'floatingips',
                                 'list floating IPs', port_id=port_id)
                             if raw['port_id'] == port_id)
        return sorted(found.values(), key=lambda each: each.address)

    def move_all(self, moves):
        """Move all of them, or move them back and raise NotPossible."""
        done: list[Move] = []
        for move in moves:
            try:
                moved = self._move(move)
            except exceptions.HMSyncException as e:
                left = self._go_back(done)
                end = (f'These could not be moved back: {", ".join(left)}. '
                       if left else 'All lead to their old targets. ')
                raise exceptions.NotPossible(
                    f'Floating IP {move.floating_ip.address} could not be '
                    f'moved: {e} {end}Run the command again.') from e
            before = move.floating_ip
            done.append(Move(moved, before.port_id, before.fixed_address))

    def _go_back(self, done):
        """Move floating IPs back; returns addresses that failed."""
        left = []
        for move in reversed(done):
            try:
                self._move(move)
            except exceptions.HMSyncException:
                left.append(move.floating_ip.address)
        return left

    def _move(self, move):
        """Move one, unless it has changed; returns its new state."""
        before = move.floating_ip
        if before.revision is None:
            raise exceptions.NotPossible(
                'Neutron shows no revision_number of floating IPs, so that '
                'two clients that move one would not notice each other: only '
                'the operator can enable the service plugin "revisions".')
        try:
            return _read(self._api.put(
                f'/floatingips/{before.id}', {'floatingip': {
                    'port_id': move.port_id,
                    'fixed_ip_address': move.fixed_address}},
                f'move floating IP {before.address}',
                {'If-Match': f'revision_number={before.revision}'}
            )['floatingip'])
        except cloud.Refused as e:
            if e.status != _STALE:
                raise
            now = self._look(move)
            if now:
                return now
            raise exceptions.NotPossible(
                'Another client has changed it in the meantime: see where it '
                'leads, and run the command again.') from e
        except exceptions.CloudUnavailable:
            # The request may have succeeded, and its answer got lost.
            now = self._look(move)
            if now is None:
                raise
            return now

    def _look(self, move):
        """Return it if it has its new target, else None."""
        found = self._api.find(f'/floatingips/{move.floating_ip.id}',
                               'read the floating IP')
        now = _read(found['floatingip']) if found else None
        return now if now and (now.port_id, now.fixed_address) == (
            move.port_id, move.fixed_address) else None

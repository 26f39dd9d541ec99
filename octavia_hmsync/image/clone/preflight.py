# SPDX-License-Identifier: Apache-2.0

"""What prevents a clone, and what a clone will lack.

All of it is reported before anything is made.
"""

import dataclasses

from octavia_hmsync.image.clone import owners
from octavia_hmsync.image.clone import tags as clone_tags
from octavia_hmsync.image.clone import tree as trees

# {kind: names in the API's answer}; the second names are old.
_QUOTAS = {
    'load balancer': ('loadbalancer', 'load_balancer'),
    'listener': ('listener',),
    'pool': ('pool',),
    'member': ('member',),
    'health monitor': ('healthmonitor', 'health_monitor'),
    'L7 policy': ('l7policy',),
    'L7 rule': ('l7rule',),
}
_AMPHORA = ('amphora', 'octavia')
_DATAGRAMS = ('UDP', 'SCTP')

OK = 'OK'
NOTE = 'NOTE'
REFUSED = 'REFUSED'


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str
    result: str
    text: str = ''


def check(source, floating_ips, clones, quota, counts, options):
    """Check a load balancer to be cloned. Pure; quota None: unknown."""
    return [_status(source), _other_clone(source, clones),
            _owner(source, options),
            *_quota(source, quota, counts),
            _floating_ips(floating_ips, options),
            *_attributes(source, options), *_notes(source, floating_ips)]


def _status(source):
    status = source.root['provisioning_status']
    if status == 'ACTIVE':
        return Finding('status', OK)
    return Finding('status', REFUSED,
                   f'it is {status}: it must be ACTIVE to be cloned')


def _other_clone(source, clones):
    parents = clone_tags.values(source.root['tags'], clone_tags.CLONE_OF)
    if parents:
        return Finding(
            'clone', REFUSED, f'it is itself the clone of {parents[0]}: '
            f'retire that one, or go back, first')
    if clones:
        return Finding('clone', REFUSED,
                       f'it has a clone already, {clones[0]["id"]}')
    return Finding('clone', OK)


def _owner(source, options):
    found = owners.find(source.root)
    if found is None:
        two = '' if options.name else (
            'its name and tags are those of the clone, too: who looks for it '
            'by them finds two until "retire"; ')
        return Finding(
            'owner', NOTE, f'{two}who goes by its id (Terraform, Heat, a '
            f'controller) knows nothing of the clone')
    if options.owner_is_stopped:
        return Finding('owner', NOTE,
                       f'it is one of {found.name}: keep that stopped until '
                       f'the end; then {found.afterwards}')
    return Finding('owner', REFUSED,
                   f'it is one of {found.name}, which knows nothing of a '
                   f'clone: {found.looks}. Stop that first '
                   f'(--owner-is-stopped)')


def _quota(source, quota, counts):
    if quota is None:
        return [Finding('quota', NOTE, 'the quota of the project cannot be '
                        'read: everything is needed twice')]
    found = []
    for kind, needed in sorted(trees.count(source).items()):
        limit = next((quota[name] for name in _QUOTAS[kind]
                      if quota.get(name) is not None), -1)
        if 0 <= limit < counts[kind] + needed:
            found.append(Finding(
                'quota', REFUSED,
                f'everything is needed twice: {counts[kind]} of {limit} in '
                f'use, {needed} more needed of the kind {kind}'))
    return found or [Finding('quota', OK)]


def _floating_ips(floating_ips, options):
    if floating_ips:
        return Finding('floating_ip', OK, ', '.join(
            each.address for each in floating_ips))
    text = ('none leads to its VIP: the clone gets another VIP address, and '
            'clients must be moved there by DNS')
    if options.without_floating_ip:
        return Finding('floating_ip', NOTE, text)
    return Finding('floating_ip', REFUSED,
                   f'{text} (--without-floating-ip)')


def _attributes(source, options):
    found = []
    for kind, raw_id, name in trees.find_unknown(source):
        if name in options.leave_out:
            found.append(Finding('attributes', NOTE,
                                 f'{name} of {kind} {raw_id} is left out'))
        else:
            found.append(Finding(
                'attributes', REFUSED,
                f'{name} of {kind} {raw_id} is not known to this release '
                f'(--leave-out {name})'))
    return found or [Finding('attributes', OK)]


def _notes(source, floating_ips):
    root = source.root
    found = [Finding(
        'not_cloned', NOTE, f'the VIP address {root["vip_address"]}, '
        f'statistics, stick tables, connections, and what was set at the '
        f'VIP port itself')]
    for words, names in trees.find_tls_defaults(source):
        found.append(Finding(
            'tls', NOTE, f'{words} has no {", ".join(names)}, as it is older '
            f'than these in Octavia: the clone gets what Octavia sets for '
            f'new ones, and clients with only older ones cannot connect'))
    if root.get('provider') not in _AMPHORA:
        found.append(Finding(
            'provider', NOTE, f'what the provider {root.get("provider")} '
            f'keeps outside of the API is not cloned'))
    if any(listener['protocol'] in _DATAGRAMS
           for listener in source.listeners):
        found.append(Finding(
            'protocol', NOTE, 'UDP and SCTP: a flow that goes on is cut or '
            'stays at the old one for as long as the router remembers it'))
    if not all(pool['healthmonitor'] for pool in source.pools):
        found.append(Finding(
            'health', NOTE, 'pools without a health monitor: whether the '
            'clone reaches their members is not known before the switch'))
    return found

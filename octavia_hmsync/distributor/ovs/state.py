# SPDX-License-Identifier: Apache-2.0

"""The state of a VIP that is kept for the data plane, a dict of JSON. Pure.

It is where the VIP stands between lists of members, see transition.py. A
``state`` is what apply() returned; ``now`` is in seconds since the epoch, None
for now.
"""

import logging
import math
import time

from octavia_hmsync.distributor.ovs import transition as transitions

LOG = logging.getLogger(__name__)


def advance(document, previous=None, now=None, known_since=-math.inf):
    """Return the state that apply() would return; pure.

    So that it can be kept before flows follow it.

    :param previous: its state before, a dict, or None.
    :param known_since: see transition.advance().
    """
    before = None
    if previous is not None:
        try:
            before = transitions.Transition.from_json(previous)
        except (KeyError, TypeError, ValueError):
            LOG.warning('What was kept of a VIP with the addresses %s cannot '
                        'be read: connections that its last change of '
                        'members moved break.',
                        ', '.join(document.addresses))
    return transitions.advance(
        before, document, time.time() if now is None else now,
        known_since).to_json()


def is_due(document, state, now=None, known_since=-math.inf):
    """Tell whether apply() must be called for time's sake alone."""
    now = time.time() if now is None else now
    transition = transitions.Transition.from_json(state)
    end = transitions.get_end(transition, document)
    return end is not None and end <= now and transitions.advance(
        transition, document, now, known_since).formers != transition.formers


def share(state, now=None):
    """Return what others adopt; pure.

    :returns: a dict as of schemas.TRANSITION, but for its version.
    """
    transition = transitions.Transition.from_json(state)
    now = time.time() if now is None else now
    shared = {'base': transition.base.to_json(),
              'current': transition.current.to_json(),
              'age': max(0.0, now - transition.since)}
    if transition.proven:
        # Else each connection is pinned one by one, and told of so.
        shared |= {'between': [[one.to_json(), max(0.0, now - since)]
                               for one, since in transition.between],
                   'proven': sorted(transition.proven)}
    return shared


def describe(state):
    """Return what is to be shown of a change of members; pure.

    :returns: a dict with mappings, how many there are, and pinned, MAC
              addresses of members whose connections are remembered one by
              one; None if there is no change.
    """
    transition = transitions.Transition.from_json(state)
    if transition.is_over:
        return None
    return {'mappings': len(transition.formers) + 1,
            'pinned': (sorted(transition.unproven) if transition.doubles
                       else sorted(transition.macs))}


def adopt(document, state, shared, now=None):
    """Return the state that one goes on with who may take over; pure.

    :param document: a VIP's, by which another distributor is active.
    :param shared: what share() returned there.
    """
    now = time.time() if now is None else now
    return transitions.adopt(
        transitions.Transition.from_json(state),
        transitions.Transition.from_json(
            {**shared, 'since': now - shared['age'], 'between': [
                [one, now - age] for one, age in shared.get('between', ())]}),
        document).to_json()

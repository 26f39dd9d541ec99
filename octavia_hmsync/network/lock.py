# SPDX-License-Identifier: Apache-2.0

"""A management network is changed by one call at a time."""

import contextlib

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import held
from octavia_hmsync.network.db import network as network_repo

# Of api_timeout: how many requests may time out between two renewals.
_REQUESTS = 6
_SHORTEST = 60


def make_claims(conf, engine):
    """Return claims on networks; they raise NotPossible if not possible."""
    def make_busy(name):
        return exceptions.NotPossible(
            f'{network_repo.get_owner(engine, name) or "Another process"} '
            f'works on the management network {name}: wait for it to end, '
            f'then try again.')

    return held.Claims(
        engine, network_repo, conf.host,
        max(_SHORTEST, _REQUESTS * conf[network_conf.GROUP].api_timeout),
        lost=make_busy)


def hold(conf, engine):
    """Claim the management network, and release it in the end.

    Waits for another owner, until the claim of a dead one has lapsed.

    :raises NotPossible: if another process goes on working.
    """
    claims = make_claims(conf, engine)
    return claims.held(conf[network_conf.GROUP].network_name,
                       claims.expiry + 1)


def look_to_undo(claim):
    """Look whether a claim is held before an undo; go on without a database.

    :raises NotPossible: if another process has claimed the network, and may
                         use what is to be undone.
    """
    with contextlib.suppress(*api.ERRORS):
        claim.look()

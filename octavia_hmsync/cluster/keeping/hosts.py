# SPDX-License-Identifier: Apache-2.0

"""Records on which compute hosts members are, for managers that ask for it.

The row of a member has it, so that all processes give managers the same one.
"""

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_host as host_repo
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

# Seconds between two looks, each of which lists all amphorae in Nova.
INTERVAL = 300


def record(conf, engine):
    """Record the hosts of members; None where Nova does not tell.

    :raises CloudUnavailable: if it does not answer; the hosts stay.
    """
    followers = managers.get_followers('FOLLOWS_HOSTS')
    found = host_repo.scan(engine, followers) if followers else []
    if not found:
        return
    hosts: dict[str, str] = {}
    problem = None
    try:
        hosts = compute.connect(conf).get_hosts()
    except exceptions.CloudRefused as e:
        problem = str(e)
    periodic.note_problem('member hosts', problem)
    for one in found:
        host = hosts.get(one.compute_id)
        if host != one.host:
            member_repo.record(engine, one.member_id, host=host)

# SPDX-License-Identifier: Apache-2.0

"""Uploads the heartbeat list of its zone to a new amphora.

Every amphora boots with the list for amphorae without a zone. The sync uploads
the list of the zone as soon as there is an agent, but leaves out amphorae that
a replacement is working on. These must be heard before they are proven.
"""

from octavia_hmsync.amphora import agent_config
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import timing


def _get_of_zone(work, amphora_id):
    """Return the list of an amphora's zone, empty without a zone."""
    generation = (generation_repo.get_last_good(work.engine) or
                  generation_repo.get_newest(work.engine))
    if generation is None or not generation.zones:
        return ()
    names = zone_repo.get_names(work.engine, generation.zones.values(),
                                [amphora_id]).get(amphora_id)
    if not names:
        return ()
    return subset.subset(
        amphora_id, generation.slots_for(names),
        timing.Settings.from_conf(work.conf).max_list_length)


def give_of_zone(work, new):
    """Upload the list of its zone to a new amphora, if it differs.

    The amphora is configured as one of a pair, even if it will be SINGLE, so
    that it leaves the VIP alone.

    :raises AgentUnreachable, AgentRefused: if it does not take it.
    """
    addresses = _get_of_zone(work, new.id)
    if addresses:
        _upload(work, new, compat_amphora.ACTIVE_STANDBY, addresses)


def give(work, new, topology):
    """Upload a new amphora's list and topology, SINGLE or ACTIVE_STANDBY.

    :raises AgentUnreachable, AgentRefused: if it does not take it.
    """
    _upload(work, new, topology, _get_of_zone(work, new.id) or
            work.conf.health_manager.controller_ip_port_list)


def _upload(work, new, topology, addresses):
    text = agent_config.AgentConfigRenderer(work.conf).render(
        new.id, topology, addresses)
    work.insist(work.agent_of(new).configure, text)

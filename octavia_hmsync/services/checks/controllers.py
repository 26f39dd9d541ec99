# SPDX-License-Identifier: Apache-2.0

"""Checks of the controllers, and of amphorae and their agents."""

import asyncio
import datetime

from oslo_utils import timeutils
from packaging import version as packaging_version

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.cli import finding
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import files
from octavia_hmsync.services.checks import config
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.worker import jobboard
from octavia_hmsync import version

# Seconds for which an operator is told of an overload.
_OVERLOADED_WITHIN = 3600
# How many agents are tried, and for how many seconds: one that answers is
# enough, and one may be dead.
_SAMPLE = 3
_TIMEOUT = 3
_ENDS_SOON = datetime.timedelta(days=14)


def check_health_managers(conf, engine):
    """Whether the running health managers suit this release."""
    up = _get_up(conf, engine)
    if not up:
        return finding.warning('No health manager has registered that is up. '
                               'Restart them with the plugin switched on.')
    own = packaging_version.Version(version.version_string())
    older = sorted(
        f'{host} ({release})' for host, release in
        hm_repo.get_plugin_versions(
            engine, conf.hmsync.offline_after).items()
        if _is_older(release, own))
    if older:
        return finding.warning(
            f'The health managers {", ".join(older)} run an older release of '
            f'octavia-hmsync than this one, {own}: bring them up to date and '
            f'restart them.')
    blind = sorted(m.host for m in up if m.is_heard is None)
    if blind:
        return finding.warning(
            f'The health managers {", ".join(blind)} do not tell what they '
            f'hear: add {config.STATISTICS_DRIVER} to [controller_worker] '
            f'statistics_drivers there.')
    overloaded = sorted(m.host for m in up
                        if mem.is_overloaded(m, _OVERLOADED_WITHIN))
    if overloaded:
        return finding.warning(
            f'In the last hour Octavia ignored heartbeats that the health '
            f'managers {", ".join(overloaded)} heard, as these had waited for '
            f'heartbeat_interval: give them more CPU, or run more of them.')
    return finding.success()


def _get_up(conf, engine):
    return [m for m in hm_repo.get_all(engine)
            if not m.is_further and
            mem.is_listening(m, conf.hmsync.offline_after)]


def _is_older(release, own):
    try:
        return packaging_version.Version(release) < own
    except packaging_version.InvalidVersion:
        # An unknown release is named, too.
        return True


def check_clocks(conf, engine):
    """Whether the nodes of the database agree on the time."""
    ahead = clocks.find_ahead(engine)
    if ahead:
        return finding.warning(
            f'The clocks of the database nodes differ: the keepalives of '
            f'{", ".join(sorted(ahead))} lie up to '
            f'{max(ahead.values()):.0f} s in the future of the node that '
            f'this controller uses. Run NTP on all nodes of the database.')
    if not _get_up(conf, engine):
        return finding.not_checked('No health manager is up whose keepalives '
                                   'could be compared.')
    return finding.success()


def check_house_keeping(conf, engine):
    """Whether a housekeeper publishes lists and uploads them."""
    keepers = keeper_repo.get_up(engine, conf.hmsync.offline_after)
    if not keepers:
        return finding.warning(
            'No octavia-housekeeping has registered that is up. Without it '
            'no lists are published or uploaded. Restart it with the '
            'plugin switched on.')
    problems = {host: problem for host, problem in keepers.items() if problem}
    if problems:
        told = ' '.join(f'octavia-housekeeping on {host} uploads nothing: '
                        f'{problem}' for host, problem in problems.items())
        return (finding.failure(told) if len(problems) == len(keepers)
                else finding.warning(told))
    if conf.task_flow.jobboard_enabled:
        try:
            jobboard.Jobboard(conf).check()
        except exceptions.HMSyncException as e:
            return finding.warning(str(e))
    blind = reach.get_blind(uploader_repo.get_all(engine),
                            conf.hmsync.offline_after)
    if blind:
        return finding.warning(
            f'These cannot reach the agents of amphorae that others '
            f'reach: {", ".join(u.name for u in blind)}. Check the route '
            f'from there to TCP {conf.haproxy_amphora.bind_port} of '
            f'amphorae.')
    return finding.success()


def check_key(conf, engine):
    """Whether all have the same heartbeat key."""
    key = conf.health_manager.heartbeat_key
    offline_after = conf.hmsync.offline_after
    keys = listening_repo.get_keys(engine, timing.Settings.from_conf(conf))
    restart = hm_repo.get_outdated(engine, offline_after)
    if restart:
        # Also if this is the cause of the next finding.
        return finding.warning(
            f'{", ".join(restart)} listen with another heartbeat_key than '
            f'octavia.conf has there by now. Restart octavia-health-'
            f'manager: a new key goes to half of them first.')
    try:
        heartbeat_key.check(key, keys, keys.published)
    except exceptions.InvalidConfiguration as e:
        return finding.failure(str(e))
    others = keys.find_other_managers(heartbeat_key.digest(key))
    if others:
        return finding.warning(
            f'{", ".join(others)} listen with another heartbeat_key than '
            f'this octavia.conf has, and are in no list for it. Restart '
            f'octavia-health-manager there with the same key.')
    known = hm_repo.get_key_digests(engine, offline_after).values()
    if not any(known) and keys.published is None:
        return finding.not_checked('No health manager is up whose '
                                   'heartbeat_key could be compared.')
    return finding.success()


def check_certificates(_conf, engine):
    """Whether Octavia rotates the certificates of agents in time."""
    ending = amphora_repo.get_ending_certificates(engine)
    if ending:
        days = amphora_repo.CERTIFICATE_ENDS_SOON // 86400
        return finding.failure(
            f'The certificates of {len(ending)} amphorae end within {days} '
            f'days, or have ended, as that of amphora {ending[0]}: their '
            f'agents cannot be reached after that. See why octavia-'
            f'housekeeping does not rotate them, in its log, and fail over '
            f'amphorae whose certificate has ended.')
    return finding.success()


def check_images(conf, engine):
    """Whether amphorae use the lists that they acknowledge."""
    judged = doubt_repo.judge_all(engine, hm_repo.get_all(engine),
                                  timing.Settings.from_conf(conf))
    old = [amphora_id for amphora_id, state in judged.items()
           if state is adoption.Adoption.NOT_ADOPTED]
    if old:
        return finding.warning(
            f'{len(old)} amphorae acknowledge a list and go on with an old '
            f'one: their images are too old. See "octavia-hmsync amphora '
            f'list --not-adopted", and bring them to a newer image: '
            f'"octavia-hmsync image replace".')
    if not judged:
        return finding.not_checked('No amphora has acknowledged a list yet.')
    if adoption.Adoption.ADOPTED not in judged.values():
        return finding.not_checked(
            f'None of {len(judged)} amphorae that acknowledge a list was seen '
            f'to use it, or not to.')
    return finding.success()


def check_files(conf):
    """Return a Finding; None if certificates are valid for long."""
    try:
        agent_client.create_context(conf)
        validity = agent_client.get_validity(conf)
    except exceptions.InvalidConfiguration as e:
        return finding.failure(f'{e} Only a host with octavia-api alone needs '
                               f'none.')
    ends = [f'[haproxy_amphora] {option} = {conf.haproxy_amphora[option]} '
            f'ends on {last:%Y-%m-%d}, and no agent can be reached after '
            f'that: renew it.' for option, (_first, last) in validity.items()
            if last < timeutils.utcnow() + _ENDS_SOON]
    return finding.warning(' '.join(ends)) if ends else None


def check_new_amphorae(conf, _engine):
    """Whether the files of this host make amphorae that can be used."""
    found = [each for _name, each in files.check_all(conf, is_builder=False)
             if each != finding.success()]
    return max(found, key=lambda each: each.severity or 0,
               default=finding.success())


def check_agents(conf, engine):
    """Whether the certificates can be used, and an agent answers here."""
    if conf.controller_worker.amphora_driver not in compat.REST_DRIVERS:
        return finding.not_checked(
            f'[controller_worker] amphora_driver = '
            f'{conf.controller_worker.amphora_driver} has certificates and '
            f'agents of its own.')
    found = check_files(conf)
    if found and found.severity is finding.Severity.FAILURE:
        return found
    amphorae = amphora_repo.get_heard(engine, _SAMPLE)
    if not amphorae:
        return found or finding.not_checked('There is no amphora to try.')
    errors = asyncio.run(_ask(conf, amphorae))
    if not all(errors):
        return found or finding.success()
    return finding.warning(
        f'None of {len(amphorae)} agents that were tried can be used from '
        f'here. Of amphora {amphorae[0].id}: {errors[0]}. Check the route '
        f'from here to TCP {conf.haproxy_amphora.bind_port} of amphorae, '
        f'their security group, and that [haproxy_amphora] here is that of '
        f'octavia-worker.')


async def _ask(conf, amphorae):
    """Make a harmless request of each agent; return errors or None."""
    client = agent_client.RestAgentClient(conf)

    async def ask(amphora):
        try:
            await client.ask(amphora.id, amphora.lb_network_ip, 'GET', 'info',
                             timeout=_TIMEOUT)
        except (exceptions.AgentUnreachable, ValueError) as e:
            return str(e)
        return None

    return await asyncio.gather(*map(ask, amphorae))

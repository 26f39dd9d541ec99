# SPDX-License-Identifier: Apache-2.0

"""Reads the data for decisions in a rollout.

It takes the same number of statements for any number of load balancers.
"""

import dataclasses

from octavia_hmsync.image import causes
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import reading as preflight
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import rules
from octavia_hmsync.image import whereabouts

# Reasons to leave a load balancer out, in addition to outdated.Blocked.
ONLY_FAILOVER = 'ONLY_FAILOVER'
NO_IMAGE_ID = 'NO_IMAGE_ID'


@dataclasses.dataclass(frozen=True)
class Fleet:
    """The load balancers that matter to a rollout.

    :param excluded: [(LoadBalancer, its Exclusion)] of outdated ones.
    :param unknown: [(LoadBalancer, why)] of load balancers that may be
                    outdated, and are left alone.
    """

    candidates: list[limits.Candidate]
    excluded: list
    unknown: list

    def get_left_out(self) -> dict[str, str]:
        """Return why load balancers are left alone, by their ids."""
        return {
            **{each.load_balancer_id: ', '.join(each.blocked_by)
               for each in self.candidates if each.blocked_by},
            **{load_balancer.id: f'excluded by {each.label}: {each.reason}'
               for load_balancer, each in self.excluded},
            **{load_balancer.id: why for load_balancer, why in self.unknown}}


def select(conf, engine, settings):
    """Return the whereabouts.Selection of a rollout's settings."""
    return whereabouts.Selection(conf, engine, whereabouts.get_cause(settings),
                                 causes.Only.from_text(settings.only))


def read_fleet(conf, engine, targets, settings, now, undo_of=None,
               selection=None):
    """Read which load balancers are to be replaced, and which left alone.

    :param undo_of: the id of a rollout: only load balancers on an image that
                    it has brought them; None for all.
    :param selection: what select() has returned before, or None.
    :raises CloudUnavailable: if the image service, or a service that knows
                              where amphorae are, gives no answer.
    """
    fleet = Fleet([], [], [])
    sorter = _Sorter(engine, targets, settings.mode, now)
    selection = selection or select(conf, engine, settings)
    brought = undo_of and aftermath_repo.get_brought(engine, undo_of)
    for load_balancer in inventory.Inventory(conf, engine).get_page(
            with_places=not selection.is_by_image):
        if not selection.holds(load_balancer):
            continue
        if brought is not None and not rules.is_on_image(
                load_balancer, brought):
            continue
        judgement = _judge(selection, load_balancer,
                           sorter.get_image_id(load_balancer))
        if judgement is not outdated.Outdated.NO:
            sorter.sort(fleet, load_balancer, selection.why_stays,
                        judgement is not outdated.Outdated.UNKNOWN)
    return fleet


def read_left_out(conf, engine, targets, mode, now, load_balancers, hosts,
                  places):
    """Return {host: Fleet} of drains of these hosts, each by itself.

    :param load_balancers: of an Inventory, with places.
    :param hosts: compute.Hosts.
    :param places: {id of an instance: its host}.
    :raises CloudUnavailable: if the image service gives no answer.
    """
    fleets = {host.name: Fleet([], [], []) for host in hosts}
    sorter = _Sorter(engine, targets, mode, now)
    zones = whereabouts.read_zones(conf, engine)
    without = {name: whereabouts.add_hosts(zones, hosts, name)
               for name in fleets}
    for load_balancer in load_balancers:
        for name in {places.get(amphora.compute_id) for amphora in
                     outdated.get_allocated(load_balancer)} & fleets.keys():
            sorter.sort(fleets[name], load_balancer,
                        without[name].why_no_host)
    return fleets


class _Sorter:
    """Sorts load balancers into a Fleet; it reads what is so for all."""

    def __init__(self, engine, targets, mode, now):
        self._excluded = outdated.Exclusions(
            exclusion_repo.get_all(engine), exclusion_repo.get_tagged(engine))
        self._only_failover = _find_only_failover(engine, mode)
        self._targets = targets
        self._now = now

    def get_image_id(self, load_balancer):
        """Return its target image, None without one.

        :raises CloudUnavailable: if the image service gives no answer.
        """
        return self._targets.get(load_balancer.tag).image_id

    def sort(self, fleet, load_balancer, why_stays, is_known=True):
        """Add a load balancer to a Fleet; raises as get_image_id().

        :param why_stays: called with it; returns the causes.Stays, or None.
        :param is_known: whether it is known that it is to be replaced.
        """
        image_id = self.get_image_id(load_balancer)
        exclusion = self._excluded.find(load_balancer)
        if exclusion is not None:
            fleet.excluded.append((load_balancer, exclusion))
        elif image_id is None or not is_known:
            blocks = outdated.get_blocks(load_balancer, image_id)
            fleet.unknown.append((load_balancer, ', '.join(
                map(str, blocks)) or NO_IMAGE_ID))
        else:
            is_only_failover = (load_balancer.id in self._only_failover and
                                not outdated.has_cluster(load_balancer))
            fleet.candidates.append(_make_candidate(
                load_balancer, image_id, self._now,
                *((ONLY_FAILOVER,) if is_only_failover else ()),
                *filter(None, [why_stays(load_balancer)])))


def _judge(selection, load_balancer, image_id):
    if selection.is_by_image:
        return outdated.judge(load_balancer, image_id)
    return (outdated.Outdated.YES if selection.find(load_balancer)
            else outdated.Outdated.NO)


def _find_only_failover(engine, mode):
    """Return the ids of load balancers that need mode failover."""
    if mode != rollout_repo.REPLACE:
        return set()
    return {lb_id for lb_id, needs in
            preflight.read_uncommon(engine).items()
            if database.why_failover(needs)}


def _make_candidate(load_balancer, image_id, now, *reasons):
    blocks = outdated.get_blocks(load_balancer, image_id)
    changed_at = load_balancer.changed_at
    is_stuck = limits.is_stuck(
        changed_at and (now - changed_at).total_seconds())
    # While Octavia works on it, other obstacles mean nothing.
    is_pending = outdated.Blocked.PENDING in blocks and not is_stuck
    blocked_by = () if is_pending else tuple(map(str, blocks))
    blocked_by += tuple(map(str, reasons))
    return limits.Candidate(
        load_balancer.id, load_balancer.topology, load_balancer.flavor_id,
        load_balancer.availability_zone, image_id, is_pending, blocked_by,
        load_balancer.operating_status,
        len({amphora.zone for amphora in
             outdated.get_allocated(load_balancer)} - {None}) > 1)


def read_current(engine, rollout):
    """Read whether anything may begin, without reading the fleet.

    :returns: a limits.Situation without candidates, with the replacements
              that are running, watched or failed.
    """
    return limits.Situation(
        rollout.settings, rollout.now, (), replace_repo.get_standing(
            engine, rollout.id, rollout.settings.watch_time),
        start_ages=replace_repo.get_start_ages(engine, limits.HOUR))


def read_situation(conf, engine, targets, rollout, selection=None):
    """Read the data of one decision.

    :param rollout: the Rollout, read before: a later change increases its
                    version.
    :raises CloudUnavailable: see read_fleet().
    """
    elsewhere = frozenset(
        r.load_balancer_id for r in replace_repo.get_open(engine)
        if r.rollout_id != rollout.id)
    return dataclasses.replace(
        read_current(engine, rollout),
        replacements=replace_repo.get_standing(engine, rollout.id),
        candidates=read_fleet(conf, engine, targets, rollout.settings,
                              rollout.now, rollout.undo_of,
                              selection).candidates,
        open_elsewhere=elsewhere)

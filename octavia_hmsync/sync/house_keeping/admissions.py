# SPDX-License-Identifier: Apache-2.0

"""Admits amphorae to a list that is on trial."""

from oslo_log import log as logging

from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync.rules import canaries
from octavia_hmsync.sync.rules import zones as zn

LOG = logging.getLogger(__name__)


class Admissions:
    """Admits amphorae to a list on trial, ``length`` addresses for each."""

    def __init__(self, engine, newest: generation_repo.Generation, good,
                 length):
        self._engine = engine
        self._newest = newest
        self._good = good
        self._good_number = good.number if good else 0
        self._length = length

    def admit(self, size, fresh, status, zone=None):
        """Admit the next canaries.

        :param fresh: the new addresses of the list; each is to be tried.
        :returns: a list of the ids that this call admits; None if the list
                  concerns no further amphora.
        """
        eligible, astray = self._find()
        if zone is not None:
            eligible = [e for e in eligible if e.zone == zone]
        if not eligible:
            return None
        chosen = canaries.choose(eligible, fresh, max(1, size))
        chosen += [a for a in astray if a not in chosen]
        if not self._begin(chosen, status):
            return []
        LOG.info('%d of %d amphorae get generation %d first: %s.',
                 len(chosen), len(eligible), self._newest.number,
                 shorten(chosen))
        return chosen

    def group(self, admitted):
        """Return {names of the zone: [AdmittedAmphora]}, one without zones."""
        names = self._get_names([a.amphora_id for a in admitted])
        groups: dict = {}
        for amphora in admitted:
            groups.setdefault(names.get(amphora.amphora_id, zn.NOWHERE),
                              []).append(amphora)
        return groups

    def find_untried(self, tried):
        """Find zones in which the list is new and has no canary yet.

        :param tried: the zones that group() has returned.
        """
        if not self._zones:
            return set()
        return {e.zone for e in self._find()[0]
                if e.zone not in tried and e.tries}

    def ask(self, asked, size, why, address=None, zone=None):
        """Admit amphorae of other load balancers, as further witnesses.

        :param asked: the load balancers that have a canary already.
        :returns: False if there are no others.
        """
        others = self._find_others(asked, address, zone)
        if not others:
            return False
        chosen = canaries.choose(others, (), size, asked)
        if self._begin(chosen, self._newest.status):
            LOG.info('%s: %d more get generation %d too, to tell whether '
                     'it is to blame: %s.', why, len(chosen),
                     self._newest.number, shorten(chosen))
        return True

    def _begin(self, chosen, status):
        # The winner may die before it admits any. Without an admitted
        # amphora the next round begins a wave again.
        if not generation_repo.begin_wave(
                self._engine, self._newest.number, self._newest.wave, status):
            return False
        admission_repo.admit(self._engine, self._newest.number, chosen)
        return True

    def _find_others(self, asked, address, zone):
        return [e for e in self._find()[0] if e.load_balancer not in asked and
                (address is None or address in e.addresses) and
                zone in (None, e.zone)]

    @property
    def _zones(self):
        return {*self._newest.zones.values(),
                *(self._good.zones.values() if self._good else ())}

    def _get_names(self, amphora_ids=None):
        zones = self._zones
        return (zone_repo.get_names(self._engine, zones, amphora_ids)
                if zones else {})

    def _find(self):
        """Return (Eligible ones, ids of those without a list proved good)."""
        eligible, astray = [], []
        names = self._get_names()
        fresh = {zone: self._find_fresh(zone)
                 for zone in {zn.NOWHERE, *names.values()}}
        for candidate in admission_repo.get_candidates(
                self._engine, self._newest.number, self._good_number):
            zone = names.get(candidate.amphora_id, zn.NOWHERE)
            addresses = self._newest.part_for(candidate.amphora_id, zone,
                                              self._length)
            if candidate.addresses == addresses and (
                    self._newest.key_digest in (None, candidate.key_digest)):
                continue
            eligible.append(canaries.Eligible(
                candidate.amphora_id, candidate.load_balancer, addresses,
                candidate.harm, candidate.is_mute, candidate.fell_silent,
                zone, fresh[zone]))
            if (candidate.generation or 0) > self._good_number:
                # A canary of an earlier list, which never proved good.
                astray.append(candidate.amphora_id)
        return eligible, astray

    def _find_fresh(self, zone):
        """Return what is new in a zone; None if everything is."""
        if self._good is None or self._good.key_digest not in (
                None, self._newest.key_digest):
            return None
        return frozenset(zn.find_fresh_in(
            self._good.addresses, self._good.zones, self._newest.addresses,
            self._newest.zones, zone))


def shorten(amphora_ids, limit=10):
    """Name amphorae in one line of a log."""
    shown = ', '.join(amphora_ids[:limit])
    more = len(amphora_ids) - limit
    return f'{shown} and {more} more' if more > 0 else shown

# SPDX-License-Identifier: Apache-2.0

"""Gives a new list to few amphorae first, and rolls back if they fall silent.
"""

import dataclasses
import time

from oslo_log import log as logging

from octavia_hmsync import addresses as addr
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync.house_keeping import admissions
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import canaries
from octavia_hmsync.sync.rules import heartbeats
from octavia_hmsync.sync.rules import steadiness
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import witnesses
from octavia_hmsync.sync.rules import zones as zn

LOG = logging.getLogger(__name__)


class Examiner:
    """Looks at the generation on trial once per run_once().

    Each housekeeper watches for itself; the first that reaches a verdict
    carries it out.
    """

    def __init__(self, conf, engine, clock=time.monotonic,
                 notifier=outbox.NOWHERE):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._notifier = notifier
        self._watch = heartbeats.HeartbeatWatch()
        self._looked_at = float('-inf')
        self._steadiness = steadiness.Steadiness()

    def run_once(self, newest):
        """Admit amphorae, judge their heartbeats, go on or roll back."""
        if not newest.is_on_trial:
            return
        settings = timing.Settings.from_conf(self._conf)
        good = generation_repo.get_last_good(self._engine)
        began = self._clock()
        managers = listening_repo.get_health_managers(
            self._engine, settings,
            lambda now: self._look(began, now, settings))
        members = managers.members
        if good and trial.has_nothing_to_lose(
                good.addresses, good.zones, newest.addresses, newest.zones,
                managers.with_key(good.key_digest)):
            self._open(newest, 'amphorae cannot be heard at the old addresses '
                               'any more')
            return
        admitted = self._get_admitted(newest, settings)
        watch = trial.time_to_watch(
            self._conf.hmsync.canary_wait, len(newest.addresses), settings)
        # With another key no address has received a heartbeat yet.
        is_key_old = good and good.key_digest in (None, newest.key_digest)
        fresh = zn.find_fresh(
            good.addresses if is_key_old else (), good.zones if good else {},
            newest.addresses, newest.zones)
        admission = admissions.Admissions(
            self._engine, newest, good, settings.max_list_length)
        verdict, blamed = self._judge(admitted, admission, newest, fresh,
                                      watch, settings)
        if verdict is trial.Verdict.NO_ANSWER:
            self._admit(newest, admission, fresh, newest.status)
        elif verdict is trial.Verdict.BAD:
            self._roll_back_silent(newest, good, fresh, blamed, members,
                                   settings)
        elif verdict is trial.Verdict.GOOD:
            self._on_heard(newest, good, fresh, admitted, members, admission,
                           watch, settings)

    def _get_admitted(self, newest, settings):
        """Return the amphorae on trial; record new silence at once."""
        admitted = admission_repo.get_admitted(self._engine, newest.number)
        self._watch.sample(self._looked_at, {
            _key(a): heartbeats.NO_NEWS if a.is_held or a.last_update is None
            else a.last_update for a in admitted if a.is_applied})
        silent = {a.amphora_id for a in admitted
                  if a.is_applied and not a.fell_silent and
                  trial.has_fallen_silent(self._watch.silence(_key(a)),
                                          settings)}
        if silent:
            # Recorded, so that it still counts after the heartbeats resume or
            # this housekeeper restarts.
            admission_repo.note_silence(self._engine, newest.number, silent)
        return [dataclasses.replace(a, fell_silent=True)
                if a.amphora_id in silent else a for a in admitted]

    def _judge(self, admitted, admission, newest, fresh, watch, settings):
        """Judge the list in each zone separately.

        Heartbeats in one zone prove nothing about another.

        :returns: (a Verdict, the amphorae that show it is BAD).
        """
        groups = admission.group(admitted)
        verdicts = {zone: self._judge_in(zone, group, admission, newest,
                                         watch, settings)
                    for zone, group in groups.items()}
        blamed = [amphora for zone, group in groups.items() for amphora in
                  group if verdicts[zone] is trial.Verdict.BAD]
        if blamed:
            return trial.Verdict.BAD, blamed
        if set(verdicts.values()) <= {trial.Verdict.NO_ANSWER}:
            return trial.Verdict.NO_ANSWER, []
        if trial.Verdict.WAIT in verdicts.values():
            return trial.Verdict.WAIT, []
        lacking = [zone for zone, verdict in verdicts.items()
                   if verdict is trial.Verdict.NO_ANSWER]
        # All of these zones get their canaries now.
        admitted_to = [zone for zone in (
            *lacking, *admission.find_untried(groups)) if admission.admit(
                self._conf.hmsync.canary_size, fresh, newest.status,
                zone) is not None]
        return (trial.Verdict.WAIT if admitted_to
                else trial.Verdict.GOOD), []

    def _judge_in(self, zone, admitted, admission, newest, watch, settings):
        shown = [trial.Admitted(
            a.load_balancer, a.is_tried, a.is_applied, a.fell_silent,
            self._watch.silence(_key(a)) if a.is_applied else 0.0,
            self._watch.watched_for(_key(a)) if a.is_applied else 0.0)
            for a in admitted]
        verdict = trial.judge(shown, watch, settings, can_ask=True)
        if verdict is not trial.Verdict.ASK_OTHERS:
            return verdict
        asked = {a.load_balancer for a in admitted}
        answered = {a.load_balancer for a in admitted
                    if a.is_applied or not a.is_tried}
        heard = {a.load_balancer for a in admitted if a.is_applied} - {
            a.load_balancer for a in admitted if a.fell_silent}
        silent = [a.amphora_id for a in admitted if a.fell_silent]
        more = canaries.how_many_more(len(answered), len(heard))
        if admission.ask(asked, more,
                         f'{admissions.shorten(silent)} fell silent with '
                         f'generation {newest.number}', zone=zone):
            return trial.Verdict.WAIT
        return trial.judge(shown, watch, settings, can_ask=False)

    def _on_heard(self, newest, good, fresh, admitted, members, admission,
                  watch, settings):
        """Go on, unless amphorae on trial are not heard at a new address."""
        listening = self._get_witnesses(admitted, newest, settings)
        asked = {a.load_balancer for a in admitted}
        unheard = witnesses.find_unheard(fresh, members, settings)
        missed = {}
        for member in members:
            if member.address not in fresh or member.is_heard is None:
                continue
            is_heard = member.address not in unheard
            if is_heard and witnesses.may_yet_be_noted(
                    member.address, listening, watch, settings):
                return
            word = witnesses.judge(member.address, is_heard, listening, True)
            if word is witnesses.Word.ASK:
                if admission.ask(
                        asked, 1, f'One load balancer alone is not heard at '
                        f'{member.address}', member.address):
                    return
                word = witnesses.judge(member.address, is_heard, listening,
                                       False)
            if word is witnesses.Word.MISSED:
                missed[member.address] = member.online_for
        if any(online_for < watch for online_for in missed.values()):
            # Its health manager restarted: wait for it.
            return
        if missed:
            self._roll_back(newest, good, missed,
                            'no heartbeat came to new addresses of it')
            return
        LOG.info('Amphorae are heard with generation %d.', newest.number)
        if self._conf.hmsync.wave_size:
            status = self._admit(newest, admission, fresh, trial.WAVES)
        else:
            status = self._open(newest, 'all others get it now')
        if status == trial.OPEN or (status and newest.status == trial.CANARY):
            self._name_silent(newest, admitted)

    def _name_silent(self, newest, admitted):
        silent = [a.amphora_id for a in admitted if a.fell_silent]
        if silent:
            LOG.warning(
                'Generation %d goes on: of %d amphorae that got it these fell '
                'silent, and the others did not: %s. Look at them, and at '
                'their hosts; none of them gets a list first again as long '
                'as there are others.', newest.number,
                sum(a.is_applied for a in admitted),
                admissions.shorten(silent))

    def _get_witnesses(self, admitted, newest, settings):
        """Return the amphorae heard all the time, as a list of Witness."""
        unproven = {row.amphora_id: row for row in
                    doubt_repo.get_unproven(self._engine)}
        heard = heartbeat_repo.get_heartbeats(self._engine)
        silent = {a.load_balancer for a in admitted if a.fell_silent}
        parts = self._get_parts(admitted, newest, settings)
        found = []
        for amphora in admitted:
            if not amphora.is_applied or amphora.load_balancer in silent:
                continue
            addresses = frozenset(parts[amphora.amphora_id])
            row = unproven.get(amphora.amphora_id)
            if amphora.has_adopted or row is None:
                found.append(witnesses.Witness(
                    amphora.load_balancer, addresses, has_adopted=True,
                    noted=addresses & {amphora.adopted_via}))
                continue
            found.append(witnesses.Witness(
                amphora.load_balancer, addresses,
                tuple(map(frozenset, row.doubt.others)), row.doubt.age,
                noted=frozenset(heard.get(amphora.amphora_id, ())),
                can_tell=bool(row.is_certain and not row.doubt.unknown and
                              set(row.doubt.addresses) == addresses)))
        return found

    def _get_parts(self, admitted, generation, settings):
        """Return the list that each amphora gets of a generation."""
        ids = [a.amphora_id for a in admitted]
        zones = generation.zones
        names = zone_repo.get_names(self._engine, zones.values(),
                                    ids) if zones else {}
        return {amphora_id: generation.part_for(
            amphora_id, names.get(amphora_id, zn.NOWHERE),
            settings.max_list_length) for amphora_id in ids}

    def _look(self, began, now, settings):
        """Note the time; return for how many seconds we looked steadily."""
        self._looked_at = self._clock()
        steady_for = self._steadiness.note(
            began, self._looked_at,
            settings.heartbeat_interval + self._conf.hmsync.poll_interval,
            now, settings.clock_tolerance)
        if not steady_for:
            # While we did not look, health managers may have been unable
            # to write.
            self._watch = heartbeats.HeartbeatWatch()
        return steady_for, self._steadiness.clock_for

    def _admit(self, newest, admission, fresh, status):
        """Admit the next canaries; return the new status, None if the same."""
        size = (self._conf.hmsync.wave_size if status == trial.WAVES
                else self._conf.hmsync.canary_size)
        chosen = admission.admit(size, fresh, status)
        if chosen is None:
            return self._open(newest, 'no other amphora is concerned')
        return status if chosen else None

    def _open(self, newest, reason):
        if not generation_repo.set_open(self._engine, newest.number):
            return None
        LOG.info('Generation %d goes to every amphora: %s.', newest.number,
                 reason)
        return trial.OPEN

    def _roll_back_silent(self, newest, good, fresh, admitted, members,
                          settings):
        parts = self._get_parts(admitted, newest, settings)
        silent: dict[str, set[str]] = {}
        names = []
        for amphora in admitted:
            if amphora.fell_silent:
                names.append(amphora.amphora_id)
                silent.setdefault(amphora.load_balancer, set()).update(
                    fresh & set(parts[amphora.amphora_id]))
        suspects = witnesses.find_suspects(
            fresh, silent, witnesses.find_unheard(fresh, members, settings),
            self._get_witnesses(admitted, newest, settings))
        self._roll_back(newest, good, suspects,
                        f'amphorae that got it fell silent '
                        f'({admissions.shorten(names)})')

    def _roll_back(self, newest, good, suspects, what):
        suspects = addr.canonical(suspects)
        if not generation_repo.roll_back(
                self._engine, newest.number, suspects,
                good.slots if good else None,
                f'generation {newest.number} is rolled back: {what}',
                self._conf.host,
                good_key_digest=good and good.key_digest,
                good_zones=good and good.zones):
            return
        LOG.error(
            'Generation %d is ROLLED_BACK: %s. No other amphora gets it%s. '
            'Check that amphorae can reach %s (security groups, routes, '
            'firewalls), and that their images follow a new list ("amphora '
            'list --not-adopted"). That is left out until the health manager '
            'starts anew or you run "octavia-hmsync sync retry".',
            newest.number,
            what, f', and they get the list of generation {good.number} back'
            if good else '', addr.join_list(suspects))
        for payload in payloads.for_roll_back(
                newest.number, suspects, what, good and good.addresses,
                self._conf.host):
            self._notifier.send(payload)


def _key(amphora):
    return amphora.amphora_id, amphora.applied_at

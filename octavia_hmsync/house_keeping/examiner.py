#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Takes a new list to few amphorae first, and back if they fall silent."""

import time

from oslo_log import log as logging

from octavia_hmsync.db.repositories import admission as admission_repo
from octavia_hmsync.db.repositories import doubt as doubt_repo
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.db.repositories import heartbeat as heartbeat_repo
from octavia_hmsync.db.repositories import house_keeper as keeper_repo
from octavia_hmsync.membership import addresses as addr
from octavia_hmsync.membership import heartbeats
from octavia_hmsync.membership import plan
from octavia_hmsync.membership import steadiness
from octavia_hmsync.membership import subset
from octavia_hmsync.membership import trial
from octavia_hmsync.notifications import outbox
from octavia_hmsync.notifications import payloads

LOG = logging.getLogger(__name__)


class Examiner:
    """One look at the generation on trial per call of run_once().

    Each housekeeper watches for itself; the first to come to a verdict
    carries it out.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param clock: a monotonic clock, seconds.
    :param notifier: a notifications.outbox.Outbox.
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
        """Admit amphorae, judge how they fare, go on or roll back.

        :param newest: the newest Generation.
        """
        if not newest.is_on_trial:
            return
        settings = plan.Settings.from_conf(self._conf)
        good = generation_repo.get_last_good(self._engine)
        members = hm_repo.get_all(self._engine)
        steady_for = self._look(settings)
        if good and steady_for > settings.offline_after and self._is_lost(
                good, members, settings):
            self._open(newest, 'amphorae cannot be heard at the old addresses '
                               'any more')
            return
        admitted = admission_repo.get_admitted(self._engine, newest.number)
        watch = trial.time_to_watch(
            self._conf.hmsync.canary_wait, len(newest.addresses), settings)
        verdict = self._judge(admitted, watch, settings)
        fresh = set(newest.addresses) - set(good.addresses if good else ())
        if not admitted or verdict is trial.Verdict.NO_ANSWER:
            self._admit(newest, good, fresh, settings, newest.status)
        elif verdict is trial.Verdict.BAD:
            self._roll_back(
                newest, good,
                trial.find_unheard(fresh, members, settings) or fresh,
                'amphorae that got it fell silent')
        elif verdict is trial.Verdict.GOOD:
            applied = [a.amphora_id for a in admitted if a.is_applied]
            unheard = self._find_unheard(applied, newest, fresh, members,
                                         watch, settings)
            if unheard is not None:
                self._on_good(newest, good, fresh, unheard, watch, settings)

    def _find_unheard(self, applied, newest, fresh, members, watch,
                      settings):
        """Find new addresses at which those that have the list are not heard.

        :returns: as trial.find_unheard(); None if that may show soon.
        """
        tried = fresh & {address for amphora_id in applied for address in
                         _subset(amphora_id, newest, settings)}
        unheard = trial.find_unheard(tried, members, settings)
        heard = {m.address: m.online_for for m in members
                 if m.address in tried and m.is_heard}
        if unheard or not heard:
            return unheard
        witnesses = self._get_witnesses(applied, newest, settings)
        if trial.may_yet_be_noted(heard, witnesses, watch, settings):
            return None
        return {address: heard[address]
                for address in trial.find_missed(heard, witnesses)}

    def _on_good(self, newest, good, fresh, unheard, watch, settings):
        """Go on, unless no heartbeat came to a new address."""
        if any(online_for < watch for online_for in unheard.values()):
            # Its health manager started anew: it gets its time.
            return
        if unheard:
            self._roll_back(newest, good, unheard,
                            'no heartbeat came to new addresses of it')
            return
        LOG.info('Amphorae are heard with generation %d.', newest.number)
        if self._conf.hmsync.wave_size:
            self._admit(newest, good, fresh, settings, trial.WAVES)
        else:
            self._open(newest, 'all others get it now')

    def _get_witnesses(self, applied, newest, settings):
        unproven = {row.amphora_id: row for row in
                    doubt_repo.get_unproven(self._engine)}
        heard = heartbeat_repo.get_heartbeats(self._engine)
        witnesses = []
        for amphora_id in applied:
            row = unproven.get(amphora_id)
            if row is None:
                witnesses.append(trial.Witness(
                    frozenset(_subset(amphora_id, newest, settings)),
                    has_adopted=True))
            elif row.is_certain and not row.doubt.unknown:
                witnesses.append(trial.Witness(
                    frozenset(row.doubt.addresses),
                    tuple(map(frozenset, row.doubt.others)), row.doubt.age,
                    noted=frozenset(heard.get(amphora_id, ()))))
        return witnesses

    def _is_lost(self, good, members, settings):
        pinned = keeper_repo.get_pinned(
            self._engine, settings.offline_after + settings.removal_delay)
        return trial.is_lost(good.addresses, trial.find_gone(
            good.addresses, members, pinned, settings), settings)

    def _look(self, settings):
        """Note the time, and return for how long we have looked steadily."""
        self._looked_at = self._clock()
        steady_for = self._steadiness.note(
            self._looked_at,
            settings.heartbeat_interval + self._conf.hmsync.poll_interval)
        if not steady_for:
            # While we did not look, perhaps nobody could write.
            self._watch = heartbeats.HeartbeatWatch()
        return steady_for

    def _judge(self, admitted, watch, settings):
        self._watch.sample(self._looked_at, {
            _key(a): heartbeats.NO_NEWS if a.is_held or a.last_update is None
            else a.last_update for a in admitted if a.is_applied})
        return trial.judge([
            trial.Admitted(
                a.is_tried, a.is_applied,
                self._watch.silence(_key(a)) if a.is_applied else 0.0,
                self._watch.watched_for(_key(a)) if a.is_applied else 0.0)
            for a in admitted], watch, settings)

    def _admit(self, newest, good, fresh, settings, status):
        concerned, astray = {}, []
        good_number = good.number if good else 0
        for candidate in admission_repo.get_candidates(
                self._engine, newest.number, good_number):
            addresses = _subset(candidate.amphora_id, newest, settings)
            if candidate.addresses != addresses:
                concerned[candidate.amphora_id] = addresses
            if (candidate.generation or 0) > good_number:
                # A canary of a list before, with addresses that nobody found
                # good.
                astray.append(candidate.amphora_id)
        if not concerned:
            self._open(newest, 'no other amphora is concerned')
            return
        # The winner may die before it has admitted any: then another round
        # begins, since nobody is admitted.
        if not generation_repo.begin_wave(self._engine, newest.number,
                                          newest.wave, status):
            return
        size = (self._conf.hmsync.wave_size if status == trial.WAVES
                else self._conf.hmsync.canary_size)
        chosen = trial.choose(concerned, fresh, max(1, size))
        chosen += [a for a in astray if a in concerned and a not in chosen]
        admission_repo.admit(self._engine, newest.number, chosen)
        LOG.info('%d of %d amphorae get generation %d first: %s.',
                 len(chosen), len(concerned), newest.number,
                 _shorten(chosen))

    def _open(self, newest, reason):
        if generation_repo.set_open(self._engine, newest.number):
            LOG.info('Generation %d goes to every amphora: %s.',
                     newest.number, reason)

    def _roll_back(self, newest, good, suspects, what):
        suspects = addr.canonical(suspects)
        if not generation_repo.roll_back(
                self._engine, newest.number, suspects,
                good.slots if good else None,
                f'generation {newest.number} is rolled back: {what}',
                self._conf.host):
            return
        LOG.error(
            'Generation %d is ROLLED_BACK: %s. Nobody else gets it%s. Check '
            'that amphorae can reach %s (security groups, routes, '
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


def _subset(amphora_id, generation, settings):
    return subset.subset(amphora_id, generation.slots,
                         settings.max_list_length)


def _key(amphora):
    return amphora.amphora_id, amphora.applied_at


def _shorten(amphora_ids, limit=10):
    shown = ', '.join(amphora_ids[:limit])
    more = len(amphora_ids) - limit
    return f'{shown} and {more} more' if more > 0 else shown

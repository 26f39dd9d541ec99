# SPDX-License-Identifier: Apache-2.0

"""A call of every function of the repositories of image upgrades.

See ``tests.db_cases.calls``.
"""

import datetime

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.db import models
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.db import exclusion as exclusion_repo
from octavia_hmsync.image.db import figures as figures_repo
from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.db import lock as lock_repo
from octavia_hmsync.image.db import needs as needs_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import restore as restore_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import amphora_view as view_repo
from tests.cloud import records
from tests.db_cases import base

LONG = 4000
SETTINGS = rollout_repo.Settings('replace', 1, 2, 0, 0, 1, '')
CALLS = []


def _call(function):
    def add(method):
        CALLS.append((function, method.__name__))
        return method
    return add


def new(number, **values):
    return replace_repo.New(f'replacement{number}', f'lb{number}', 'replace',
                            'image', **values)


class ImageCalls(base.DatabaseTestCase):

    # Rollouts

    def _start(self, *rollout_ids):
        """Have rollouts, of which the last one runs."""
        for rollout_id in rollout_ids:
            if rollout_id != rollout_ids[0]:
                rollout_repo.change_state(
                    self.engine, rollout_ids[0], ('RUNNING',), 'CANCELLED')
            rollout_repo.add(self.engine, rollout_id, SETTINGS)

    @_call(rollout_repo.get_active)
    def get_active_rollout(self):
        self._start('old', 'rollout')
        return ()

    @_call(rollout_repo.get_last)
    def get_last_rollout(self):
        self._start('old', 'rollout')
        return ()

    @_call(rollout_repo.get)
    def get_rollout(self):
        self._start('old', 'rollout')
        return 'old',

    @_call(rollout_repo.get_all)
    def get_rollouts(self):
        self._start('rollout')
        return 10,

    @_call(rollout_repo.add)
    def add_rollout(self):
        return 'rollout', SETTINGS, 'because'

    @_call(rollout_repo.add)
    def add_second_rollout(self):
        self._start('rollout')
        return 'other', SETTINGS

    @_call(rollout_repo.change_state)
    def change_state_of_rollout(self):
        self._start('old', 'rollout')
        return 'rollout', ('RUNNING',), 'PAUSED', 'lunch'

    @_call(rollout_repo.end)
    def end_rollout(self):
        self._start('old', 'rollout')
        return 'rollout', 0, 'DONE', 'all done'

    # Replacements

    def _begin(self):
        """Have four: one waits, two run, one is done."""
        self._start('rollout')
        claims_repo.begin(self.engine, 'rollout', 0,
                          [new(1), new(2), new(3)], 'one', LONG)
        claims_repo.finish(self.engine, 'replacement3', 'one', 'DONE')
        replace_repo.add(self.engine, new(4))

    @_call(replace_repo.get)
    def get_replacement(self):
        self._begin()
        return 'replacement1',

    @_call(replace_repo.get_open)
    def get_open_replacements(self):
        self._begin()
        return ()

    @_call(replace_repo.get_of_rollout)
    def get_of_rollout(self):
        self._begin()
        return 'rollout',

    @_call(replace_repo.get_standing)
    def get_standing(self):
        self._begin()
        return 'rollout',

    @_call(replace_repo.get_of_load_balancer)
    def get_of_load_balancer(self):
        self._begin()
        return 'lb1',

    @_call(replace_repo.get_start_ages)
    def get_start_ages(self):
        self._begin()
        return LONG,

    @_call(replace_repo.get_durations)
    def get_durations(self):
        self._begin()
        return 10,

    @_call(replace_repo.count_states)
    def count_states(self):
        self._begin()
        return ['rollout', 'other'],

    @_call(replace_repo.add)
    def add_replacement(self):
        self._begin()
        return new(5),

    @_call(replace_repo.add)
    def add_replacement_of_one_that_has_one(self):
        self._begin()
        return replace_repo.New('another', 'lb1', 'replace', 'image'),

    @_call(replace_repo.resize)
    def resize_load_balancer(self):
        lb_id = self.records.add_load_balancer()
        flavor_id = self.records.add_flavor()
        return lb_id, flavor_id, None, replace_repo.New(
            'one', lb_id, 'replace', 'image', cause='FLAVOR',
            cause_value=flavor_id)

    @_call(claims_repo.begin)
    def begin_replacements(self):
        self._begin()
        # One that an operator has begun is among them.
        return ('rollout', 2, [new(5, canary=True), new(6), replace_repo.New(
            'another', 'lb4', 'replace', 'image')], 'two', LONG)

    @_call(claims_repo.begin)
    def begin_what_was_chosen_before(self):
        self._begin()
        return 'rollout', 1, [new(5)], 'two', LONG

    @_call(claims_repo.claim)
    def claim_replacements(self):
        self._begin()
        claims_repo.release(self.engine, 'replacement1', 'one')
        return 'two', 10, LONG

    @_call(claims_repo.renew)
    def renew_replacement(self):
        self._begin()
        return 'replacement1', 'one', LONG

    @_call(claims_repo.set_phase)
    def set_phase(self):
        self._begin()
        return 'replacement1', 'one', LONG, 'BUILD'

    @_call(claims_repo.release)
    def release_replacement(self):
        self._begin()
        return 'replacement1', 'one'

    @_call(claims_repo.finish)
    def finish_replacement(self):
        self._begin()
        return 'replacement1', 'one', 'SKIPPED', 'it is PENDING', 60

    @_call(claims_repo.finish)
    def finish_what_somebody_else_has(self):
        self._begin()
        return 'replacement1', 'two', 'FAILED', 'because'

    @_call(cancel_repo.cancel)
    def cancel_replacement(self):
        self._begin()
        return 'replacement4', 'not needed'

    @_call(cancel_repo.cancel)
    def cancel_replacement_that_runs(self):
        self._begin()
        return 'replacement1', 'not needed'

    @_call(cancel_repo.cancel_rollout)
    def cancel_rollout(self):
        self._begin()
        return 'rollout', ('RUNNING',), 'not needed'

    @_call(cancel_repo.get_request)
    def get_request_to_cancel(self):
        self._begin()
        return 'replacement1',

    # What came of them

    @_call(aftermath_repo.count_skipped)
    def count_skipped(self):
        self._begin()
        return replace_repo.get(self.engine, 'replacement1'),

    @_call(aftermath_repo.get_brought)
    def get_brought(self):
        self._begin()
        return 'rollout',

    @_call(aftermath_repo.get_left_zones)
    def get_left_zones(self):
        self._begin()
        return 'ZONE',

    @_call(aftermath_repo.set_failed)
    def set_failed(self):
        self._begin()
        return 'replacement3', 'it fell silent'

    @_call(aftermath_repo.get_watched)
    def get_watched(self):
        lb_id, _ids = self._add_pair()
        self._start('rollout')
        claims_repo.begin(self.engine, 'rollout', 0, [replace_repo.New(
            'one', lb_id, 'replace', 'image')], 'me', LONG)
        claims_repo.finish(self.engine, 'one', 'me', 'DONE')
        return 'rollout', LONG

    # What one that is worked on changes, of Octavia's

    def _add_pair(self, status='ALLOCATED'):
        """Have a load balancer with two amphorae, and one to leave alone.

        :returns: its id, and those of its amphorae.
        """
        lb_id = self.records.add_load_balancer('ACTIVE_STANDBY')
        ids = [self.records.add_amphora(f'192.0.2.{100 + number}', lb_id,
                                        role, status)
               for number, role in enumerate(('MASTER', 'BACKUP'))]
        self.records.set_health(*ids, busy=True)
        self.add_amphorae(1)
        return lb_id, ids

    def _claim_pair(self):
        lb_id, ids = self._add_pair()
        replace_repo.add(self.engine, replace_repo.New(
            'one', lb_id, 'replace', 'image'))
        claimed, = claims_repo.claim(self.engine, 'me', 1, LONG)
        return claimed, ids

    @_call(lock_repo.lock)
    def lock(self):
        claimed, ids = self._claim_pair()
        return claimed, 'me', LONG, 'BUILD', ids[0]

    @_call(lock_repo.lock)
    def lock_what_others_have(self):
        claimed, ids = self._claim_pair()
        self.records.change('load_balancer', claimed.load_balancer_id,
                            provisioning_status='PENDING_UPDATE')
        return claimed, 'me', LONG, 'BUILD', ids[0]

    @_call(lock_repo.unlock)
    def unlock(self):
        claimed, ids = self._claim_pair()
        lock_repo.lock(self.engine, claimed, 'me', LONG, 'BUILD', ids[0])
        return claimed, 'me', LONG, 'LOCK'

    @_call(lock_repo.unlock)
    def unlock_what_is_single_now(self):
        claimed, *_rest = self.unlock()
        lock_repo.change_topology(self.engine, claimed, 'me', LONG,
                                  'DELETE_OLD', 'SINGLE')
        return claimed, 'me', LONG, 'LOCK'

    @_call(lock_repo.change_topology)
    def change_topology(self):
        claimed, *_rest = self.unlock()
        return claimed, 'me', LONG, 'DELETE_OLD', 'SINGLE'

    @_call(octavia_repo.set_busy)
    def set_busy(self):
        return self._add_pair()[1],

    @_call(octavia_repo.set_interface)
    def set_interface(self):
        return self._add_pair()[1][0], 'eth1'

    @_call(octavia_repo.set_right)
    def set_right(self):
        return self._add_pair('ERROR')[1],

    @_call(octavia_repo.set_going)
    def set_going(self):
        return self._add_pair()[1][0],

    @_call(octavia_repo.set_gone)
    def set_gone(self):
        return self._add_pair()[1][0],

    @_call(octavia_repo.get_unfinished)
    def get_unfinished(self):
        lb_id, _ids = self._add_pair()
        self.records.add_amphora('192.0.2.110', lb_id, 'BACKUP', 'BOOTING')
        return lb_id,

    @_call(evidence_repo.read)
    def read_evidence(self):
        lb_id, _ids = self._add_pair()
        self.records.add_listener(lb_id)
        return lb_id,

    # What amphorae say

    def _add_views(self):
        lb_id, (one, two) = self._add_pair()
        for amphora_id in (one, two, one):
            view_repo.record(self.engine, records.new_id(), lb_id,
                             heartbeat.Heartbeat(
                                 amphora_id, frozenset({'listener'}),
                                 {'member': 'ONLINE'}))
        return lb_id

    @_call(view_repo.get_watched)
    def get_watched_amphorae(self):
        self._add_pair()
        self._begin()
        return ()

    @_call(view_repo.record)
    def record_view(self):
        lb_id = self._add_views()
        return records.new_id(), lb_id, heartbeat.Heartbeat(
            'amphora', frozenset(), {})

    @_call(view_repo.get)
    def get_views(self):
        return self._add_views(), datetime.datetime(2026, 1, 1)

    @_call(view_repo.delete_old)
    def delete_old_views(self):
        self._add_views()
        self.make_older(models.AmphoraView, 'seen_at',
                        view_repo.RETENTION + 1)
        return ()

    # What is told of them

    @_call(figures_repo.get_open)
    def get_open_figures(self):
        self._begin()
        return ()

    @_call(figures_repo.count)
    def count_replacements(self):
        self._begin()
        return ()

    @_call(figures_repo.get_last_failure_age)
    def get_last_failure_age(self):
        self._begin()
        claims_repo.finish(self.engine, 'replacement1', 'one', 'FAILED')
        return ()

    # What ended long ago

    @_call(rollout_repo.delete_ended)
    def delete_ended(self):
        self._begin()
        self._start('rollout', 'new')
        for number in (1, 2):
            claims_repo.finish(self.engine, f'replacement{number}', 'one',
                               'DONE')
        cancel_repo.cancel(self.engine, 'replacement4', 'not needed')
        for model in (base.models.ImageReplacement, base.models.ImageRollout):
            self.make_older(model, 'finished_at', LONG)
        replace_repo.add(self.engine, new(5))
        return LONG / 2,

    # Exclusions

    def _exclude(self):
        for kind, value in (('LOAD_BALANCER', 'lb1'), ('TAG', 'fragile'),
                            ('TAG', 'other')):
            exclusion_repo.add(self.engine, value, kind, value, 'because')
        self.records.insert_all({'tags': [
            {'resource_id': resource, 'tag': tag} for resource, tag in
            (('lb1', 'fragile'), ('lb2', 'fragile'), ('lb2', 'free'))]})

    @_call(exclusion_repo.get_all)
    def get_exclusions(self):
        self._exclude()
        return ()

    @_call(exclusion_repo.get_tagged)
    def get_tagged(self):
        self._exclude()
        return ()

    @_call(exclusion_repo.count)
    def count_excluded(self):
        self._exclude()
        return 'TAG', 'fragile'

    @_call(exclusion_repo.add)
    def add_exclusion(self):
        self._exclude()
        return 'id', 'FLAVOR', 'flavor', 'because', 60, 'gold'

    @_call(exclusion_repo.add)
    def add_exclusion_again(self):
        self._exclude()
        self.make_older(base.models.ImageExclusion, 'expires_at', 60,
                        value='other')
        return 'id', 'TAG', 'fragile', 'another reason'

    @_call(exclusion_repo.remove)
    def remove_exclusion(self):
        self._exclude()
        return 'TAG', 'fragile'

    # What Octavia has

    @_call(inventory_repo.get_flavors)
    def get_flavors(self):
        self.records.add_flavor()
        return ()

    @_call(inventory_repo.get_zones)
    def get_inventory_zones(self):
        self.add_zone('edge')
        return ()

    @_call(inventory_repo.get_page)
    def get_inventory_page(self):
        lb = self.records.add_load_balancer()
        self.add_amphorae(2, load_balancer_id=lb)
        return inventory_repo.Wanted(lb),

    @_call(inventory_repo.get_page)
    def get_inventory_page_with_places(self):
        lb = self.records.add_load_balancer()
        self.add_amphorae(2, load_balancer_id=lb)
        return inventory_repo.Wanted(lb), None, None, True

    @_call(inventory_repo.get_tagged)
    def get_tagged_load_balancers(self):
        self.records.insert_all({'tags': [{
            'resource_id': self.records.add_load_balancer(),
            'tag': 'fragile'}]})
        return 'fragile',

    @_call(inventory_repo.exists)
    def load_balancer_exists(self):
        return self.records.add_load_balancer(),

    @_call(needs_repo.get_uncommon)
    def get_uncommon_needs(self):
        self.records.add_load_balancer()
        return ()

    @_call(needs_repo.get_all)
    def get_needs(self):
        lb = self.records.add_load_balancer()
        return lb, lb

    # What failovers left

    def _leave_in_error(self):
        """Have a load balancer in ERROR whose amphora serves."""
        lb = self.records.add_load_balancer()
        self.records.change('load_balancer', lb, provisioning_status='ERROR')
        listener = self.records.add_listener(lb)
        self.records.change('listener', listener, provisioning_status='ERROR')
        amphora, = self.add_amphorae(1, load_balancer_id=lb, status='ERROR')
        self.records.set_health(amphora, busy=True)
        return lb, amphora

    @_call(restore_repo.get)
    def get_what_failover_left(self):
        return self._leave_in_error()[0],

    @_call(restore_repo.restore)
    def restore_load_balancer(self):
        lb, amphora = self._leave_in_error()
        snapshot = restore_repo.get(self.engine, lb)
        return (snapshot, {amphora: 'ALLOCATED'}, (),
                {each: 'ACTIVE' for each in snapshot.objects})

    def _leak(self):
        amphora, = self.add_amphorae(1, status='BOOTING')
        self.records.set_health(amphora)
        return leak_repo.get(self.engine).amphorae[amphora]

    @_call(leak_repo.get_heard)
    def get_heard(self):
        return self._add_pair()[0], None, 60

    @_call(leak_repo.get)
    def get_what_leaked(self):
        self._leak()
        return ()

    @_call(leak_repo.begin_delete)
    def begin_to_delete_an_amphora(self):
        return self._leak(),

    @_call(leak_repo.end_delete)
    def end_deleting_an_amphora(self):
        amphora = self._leak()
        leak_repo.begin_delete(self.engine, amphora)
        return amphora.id,

# SPDX-License-Identifier: Apache-2.0

"""A call of every function of the repositories of all slices."""

import datetime
import importlib
import inspect
import pkgutil

from oslo_utils import timeutils

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.cluster import db as cluster_db
from octavia_hmsync.db import models
from octavia_hmsync.db import news as news_repo
from octavia_hmsync.db import octavia_amphora
from octavia_hmsync.db import order as order_repo
from octavia_hmsync.image import db as image_db
from octavia_hmsync.network import db as network_db
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network.db import used_lists as used_repo
from octavia_hmsync.sync import db as sync_db
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import amphora_page as page_repo
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import exposure as exposure_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import left_address as left_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.db import progress as progress_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.db import zone as zone_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import trial
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.cluster import instance_calls
from tests.db_cases.cluster import manager_calls
from tests.db_cases.cluster import member_facts_calls
from tests.db_cases.image import calls as image_calls
from tests.db_cases import order as order_cases

LIST = ('192.0.2.101:5555', '192.0.2.102:5555')
OTHER_LIST = LIST[:1]
OFFLINE_AFTER = 600
LONG = 4000
SLICES = (cluster_db, image_db, network_db, sync_db)


def public_functions():
    """All public functions of all repositories that take an engine."""
    names = [*(module.__name__ for module in (
        octavia_amphora, order_repo, news_repo)), *(
        f'{package.__name__}.{info.name}' for package in SLICES
        for info in pkgutil.iter_modules(package.__path__))]
    return {function for name in names
            for function in vars(importlib.import_module(name)).values()
            if inspect.isfunction(function) and
            function.__module__ == name and
            not function.__name__.startswith('_') and
            # Or a connection: api.transaction().
            ('engine' in inspect.signature(function).parameters or
             hasattr(function, '__wrapped__'))}


# Pairs of a function and the name of a method of Calls.
CALLS = [*image_calls.CALLS, *cluster_calls.CALLS, *manager_calls.CALLS,
         *member_facts_calls.CALLS, *instance_calls.CALLS]


def _call(function):
    """Mark a method that makes rows, and returns the call's arguments.

    A function that takes different ways has several of them.
    """
    def add(method):
        CALLS.append((function, method.__name__))
        return method
    return add


class Calls(member_facts_calls.MemberFactsCalls, manager_calls.ManagerCalls,
            instance_calls.InstanceCalls, image_calls.ImageCalls):
    """Each has at least two rows to change, and one to leave alone."""

    # Orders

    def _order(self):
        """Add three orders, of which the first has ended."""
        for number in (1, 2, 3):
            order_repo.add(self.engine, order_cases.new(number))
        order_repo.finish(self.engine, 'order1')

    @_call(order_repo.get_page)
    def get_orders(self):
        self._order()
        return 'order3', 2

    @_call(order_repo.exists)
    def order_exists(self):
        self._order()
        return 'order2',

    @_call(order_repo.add)
    def add_order(self):
        self._order()
        return order_cases.new(4),

    @_call(order_repo.finish)
    def finish_order(self):
        self._order()
        return 'order2', 'no'

    @_call(news_repo.take)
    def take_news(self):
        self._order()
        return 10,

    @_call(news_repo.forget)
    def forget_news(self):
        self._order()
        return -LONG,

    @_call(order_repo.delete_old)
    def delete_old_orders(self):
        self._order()
        for order_id in ('order1', 'order2'):
            self.make_older(models.Order, 'created_at', LONG, id=order_id)
        return LONG / 2,

    # Amphorae

    def _add(self, number=3):
        ids = self.add_amphorae(number)
        amphora_repo.add_missing(self.engine)
        return ids

    def _claim(self, owner='batch1', limit=100):
        claim_repo.claim_due(self.engine, 1, owner, limit, LONG)

    @_call(amphora_repo.add_missing)
    def add_missing(self):
        self._add(1)
        self.add_amphorae(2)
        return ()

    @_call(amphora_repo.add_building)
    def add_building(self):
        self.add_amphorae(2, status='BOOTING')
        self.add_amphorae(1)
        return ()

    @_call(amphora_repo.get_page)
    def get_page(self):
        return sorted(self._add())[0], 2

    get_own_page = _call(amphora_repo.get_own_page)(get_page)

    @_call(amphora_repo.is_any_behind)
    def is_any_behind(self):
        self._add()
        return 1,

    @_call(amphora_repo.find_wanted)
    def find_wanted(self):
        return self._add()[:2],

    @_call(claim_repo.claim_due)
    def claim_due(self):
        self._add()
        self._claim('batch2', limit=1)
        return 1, 'batch1', 100, LONG

    @_call(claim_repo.is_due)
    def is_due(self):
        self._add()
        return 1,

    @_call(outcome_repo.record)
    def record(self):
        """One statement for each kind of result."""
        one, two, three, four = self._add(4)
        self._claim()
        return 1, 'batch1', [
            outcome_repo.Outcome(one, upload_result.APPLIED, LIST),
            outcome_repo.Outcome(two, upload_result.APPLIED, OTHER_LIST),
            outcome_repo.Outcome(three, upload_result.UNREACHABLE, LIST,
                                 'it hangs', 10.0)]

    @_call(outcome_repo.record)
    def record_reach(self):
        """One that others did not reach, and one that they reached."""
        one, two, three = self._try_in_vain('other', 'own')
        self._claim()
        return 1, 'batch1', [
            outcome_repo.Outcome(one, upload_result.APPLIED, LIST),
            outcome_repo.Outcome(two, upload_result.UNREACHABLE, LIST,
                                 'refused', 10.0, is_unanswered=True)
        ], None, 'own', OFFLINE_AFTER

    def _try_in_vain(self, *uploaders):
        """Amphorae that each of these uploaders tried in vain."""
        ids = self._add()
        for name in uploaders:
            uploader_repo.touch(self.engine, name, OFFLINE_AFTER)
        for name in uploaders:
            self._claim(name)
            outcome_repo.record(self.engine, 1, name, [
                outcome_repo.Outcome(amphora_id, upload_result.UNREACHABLE,
                                     LIST, 'refused', 60, is_unanswered=True)
                for amphora_id in ids], None, name, OFFLINE_AFTER)
            self.make_older(models.Amphora, 'next_attempt_at', 1)
        return ids

    @_call(attempt_repo.get_attempts)
    def get_attempts(self):
        return 1, self._try_in_vain('one', 'two')[:2]

    @_call(attempt_repo.get_waiting)
    def get_waiting(self):
        self._try_in_vain('one', 'two')
        return ()

    @_call(uploader_repo.touch)
    def touch_uploader(self):
        self._try_in_vain('one')
        return 'one', OFFLINE_AFTER

    @_call(uploader_repo.touch)
    def touch_new_uploader(self):
        self._try_in_vain('one')
        return 'two', OFFLINE_AFTER

    @_call(uploader_repo.get_all)
    def get_uploaders(self):
        self._try_in_vain('one', 'two')
        return ()

    @_call(uploader_repo.get_reachable)
    def get_reachable(self):
        self._try_in_vain('one', 'two')
        return 'one',

    @_call(uploader_repo.set_overtaken)
    def set_overtaken(self):
        self._try_in_vain('one', 'two')
        return 'one', 3

    @_call(uploader_repo.set_reached)
    def set_reached(self):
        self._try_in_vain('one', 'two')
        with self.engine.begin() as connection:
            connection.execute(models.Uploader.__table__.update().values(
                overtaken=3))
        return 'one',

    @_call(uploader_repo.delete_expired)
    def delete_expired_uploaders(self):
        self._try_in_vain('one', 'two', 'three')
        for name in ('two', 'three'):
            self.make_older(models.Uploader, 'keepalive_at', LONG, name=name)
        return LONG - 100,

    @_call(claim_repo.give_back)
    def give_back(self):
        return self.release()

    @_call(claim_repo.release)
    def release(self):
        self._add()
        self._claim('batch1', limit=2)
        self._claim('batch2')
        return 'batch1',

    @_call(claim_repo.retry_now)
    def retry_now(self):
        self.record()
        return ()

    @_call(claim_repo.upload_again)
    def upload_again(self):
        return self._add()[:2],

    @_call(claim_repo.release_all)
    def release_all(self):
        self._add()
        self._claim('job1-batch1', limit=2)
        self._claim('job2-batch1')
        return 'job1-',

    @_call(claim_repo.count_due)
    def count_due(self):
        self._add()
        return 1,

    @_call(amphora_repo.count_other_key)
    def count_other_key(self):
        self.add_amphorae(2)
        return 'digest',

    @_call(amphora_repo.get_heard)
    def get_heard_amphorae(self):
        self.add_amphorae(2)
        return 1,

    @_call(amphora_repo.get_ending_certificates)
    def get_ending_certificates(self):
        self.add_amphorae(2)
        return ()

    @_call(amphora_repo.get_first_certificate_end)
    def get_first_certificate_end(self):
        self.add_amphorae(2)
        return ()

    @_call(amphora_repo.count)
    def count(self):
        self._add()
        return 1,

    @_call(amphora_repo.count_adoptions)
    def count_adoptions(self):
        self._acknowledge()
        return [], timing.Settings.from_conf(self.conf)

    @_call(progress_repo.get_oldest_age)
    def get_oldest_age(self):
        self._publish(1)
        self._add()
        return ()

    @_call(progress_repo.get_again)
    def get_again(self):
        claim_repo.upload_again(self.engine, self._acknowledge()[:2])
        return ()

    @_call(amphora_repo.get_rows)
    def get_amphora_rows(self):
        self._add()
        return ()

    @_call(page_repo.get_page)
    def get_amphora_page(self):
        return page_repo.Wanted(ids=self._add()[1:]), '', 10

    @_call(page_repo.exists)
    def exists(self):
        return self._add()[0],

    @_call(page_repo.find_load_balancers)
    def find_load_balancers(self):
        return self.records.add_load_balancer(),

    @_call(page_repo.get_load_balancer_names)
    def get_load_balancer_names(self):
        return [self.records.add_load_balancer(), 'gone'],

    @_call(amphora_repo.delete_gone)
    def delete_gone(self):
        for amphora_id in self._add()[1:]:
            self.records.set_status(amphora_id, 'DELETED')
        return ()

    # Adoption

    def _acknowledge(self):
        """Amphorae that acknowledged two lists, and were heard after that."""
        ids = self._add()
        for number, addresses in ((1, OTHER_LIST), (2, LIST)):
            claim_repo.claim_due(self.engine, number, f'batch{number}',
                                 100, LONG)
            outcome_repo.record(
                self.engine, number, f'batch{number}', [
                    outcome_repo.Outcome(i, upload_result.APPLIED, addresses)
                    for i in ids])
        for amphora_id in ids:
            self.records.set_health(amphora_id)
            heartbeat_repo.note_heartbeat(self.engine, amphora_id, LIST[0])
        return ids

    def _unproven(self):
        return sorted(doubt_repo.get_unproven(self.engine),
                      key=lambda unproven: unproven.amphora_id)

    @_call(doubt_repo.get_unproven)
    def get_unproven(self):
        self._acknowledge()
        return ()

    @_call(doubt_repo.get_overdue_page)
    def get_overdue_page(self):
        self._acknowledge()
        return None, 2, -60

    @_call(heartbeat_repo.get_heartbeats)
    def get_heartbeats(self):
        self._acknowledge()
        return ()

    @_call(doubt_repo.judge_all)
    def judge_all(self):
        self._acknowledge()
        return [], timing.Settings.from_conf(self.conf)

    @_call(doubt_repo.judge_page)
    def judge_page(self):
        self._acknowledge()
        return (amphora_repo.get_rows(self.engine), [],
                timing.Settings.from_conf(self.conf))

    @_call(heartbeat_repo.get_last_updates)
    def get_last_updates(self):
        self._acknowledge()
        return ()

    @_call(heartbeat_repo.note_heartbeat)
    def note_heartbeat(self):
        return self._acknowledge()[0], LIST[1], 1.0

    @_call(heartbeat_repo.note_heartbeat)
    def note_heartbeat_again(self):
        return self._acknowledge()[0], LIST[0]

    @_call(doubt_repo.set_previous)
    def set_previous(self):
        self._acknowledge()
        return self._unproven()[0], (OTHER_LIST, adoption.Unknown(1))

    @_call(doubt_repo.set_adopted)
    def set_adopted(self):
        self._acknowledge()
        return self._unproven()[:2], LIST[0]

    @_call(doubt_repo.set_not_adopted)
    def set_not_adopted(self):
        self._acknowledge()
        return self._unproven()[:2],

    # Rollout

    @_call(admission_repo.get_candidates)
    def get_candidates(self):
        self._acknowledge()
        return 3,

    @_call(admission_repo.admit)
    def admit(self):
        return 3, self._acknowledge()[:2]

    @_call(admission_repo.note_silence)
    def note_silence(self):
        """Two of those that acknowledged the second list."""
        return 2, self._acknowledge()[:2]

    @_call(admission_repo.get_admitted)
    def get_admitted(self):
        admission_repo.admit(self.engine, 2, self._acknowledge()[:2])
        return 2,

    # Held amphorae

    def _add_silent(self):
        ids = self._add()
        for amphora_id in ids:
            self.records.set_health(amphora_id, age=50)
        return ids

    @_call(hold_repo.find_silent)
    def find_silent(self):
        self._add_silent()
        return timeutils.utcnow() - datetime.timedelta(seconds=30),

    @_call(hold_repo.hold)
    def hold(self):
        ids = self._add_silent()
        return ids[1:], timeutils.utcnow().replace(microsecond=0)

    @_call(hold_repo.hold)
    def hold_that_counts_as_begun_before(self):
        ids = self._add_silent()
        return (ids, timeutils.utcnow().replace(microsecond=0),
                {ids[0]: 2, ids[1]: 30})

    @_call(hold_repo.count_held)
    def count_held(self):
        hold_repo.hold(self.engine, *self.hold())
        return 60,

    @_call(hold_repo.get_held_page)
    def get_held_page(self):
        hold_repo.hold(self.engine, *self.hold())
        return None, 10, -60

    @_call(exposure_repo.get_all)
    def get_uses(self):
        self._acknowledge()
        return ()

    @_call(exposure_repo.get_page)
    def get_use_page(self):
        self.get_uses()
        return '', 10

    @_call(exposure_repo.get_since)
    def get_uses_since(self):
        self.get_uses()
        return LONG,

    @_call(exposure_repo.get_without)
    def get_without_use(self):
        self._add()
        return '', 2

    @_call(hold_repo.release_heard)
    def release_heard(self):
        ids = self._add_silent()
        before = timeutils.utcnow().replace(microsecond=0)
        hold_repo.hold(self.engine, ids, before)
        for amphora_id in ids[1:]:
            self.records.set_health(amphora_id, age=-2)
        return ()

    # Generations

    def _publish(self, *numbers, status=trial.OPEN):
        for number in numbers:
            generation_repo.publish(
                self.engine, number, dict(zip(LIST, range(2))), 'because',
                'controller1', status)

    def _roll_back(self, number):
        generation_repo.roll_back(self.engine, number, LIST[1:], None,
                                  'because', 'controller1')

    @_call(generation_repo.get_last_good)
    def get_last_good(self):
        self._publish(1)
        self._publish(2, status=trial.CANARY)
        return ()

    @_call(generation_repo.get_history)
    def get_history(self):
        self._publish(1, 2)
        return ()

    @_call(generation_repo.is_wanted)
    def is_wanted(self):
        self._publish(1, 2)
        return 1,

    @_call(generation_repo.count_since)
    def count_since(self):
        self._publish(1, 2)
        return 60,

    @_call(generation_repo.set_key_digest)
    def set_generation_key_digest(self):
        self._publish(1, 2)
        return 1, 'digest'

    @_call(generation_repo.begin_wave)
    def begin_wave(self):
        self._publish(1)
        self._publish(2, status=trial.CANARY)
        return 2, 0, trial.WAVES

    @_call(generation_repo.set_open)
    def set_open(self):
        self._publish(1)
        self._publish(2, status=trial.CANARY)
        return 2,

    @_call(generation_repo.roll_back)
    def roll_back(self):
        self._publish(1)
        self._publish(2, status=trial.CANARY)
        return 2, LIST[1:], {LIST[0]: 0}, 'because', 'controller1'

    @_call(generation_repo.get_suspects)
    def get_suspects(self):
        self._publish(1, status=trial.CANARY)
        self._roll_back(1)
        return ()

    @_call(generation_repo.get_ages)
    def get_ages(self):
        return self.get_suspects()

    @_call(generation_repo.clear_suspects)
    def clear_suspects(self):
        self._publish(1, 2, status=trial.CANARY)
        self._roll_back(1)
        self._roll_back(2)
        return ()

    @_call(generation_repo.get_newest)
    def get_newest(self):
        self._publish(1, 2)
        return ()

    @_call(generation_repo.publish)
    def publish(self):
        self._publish(1)
        return 2, {LIST[0]: 0, LIST[1]: 1}, 'because', 'controller1'

    @_call(generation_repo.publish)
    def publish_number_that_is_taken(self):
        self._publish(1)
        return 1, {LIST[0]: 0}, 'because', 'controller2'

    @_call(generation_repo.find_doubtful)
    def find_doubtful(self):
        self._publish(1, 2)
        self._publish(3, status=trial.CANARY)
        return {None, 1, 3},

    @_call(generation_repo.set_completed)
    def set_completed(self):
        self._publish(1, 2)
        return 2,

    @_call(generation_repo.delete_old)
    def delete_old(self):
        self._publish(1, 2, 3)
        return 1,

    @_call(generation_repo.delete_old)
    def delete_old_but_the_last_good(self):
        self._publish(1, 2)
        self._publish(3, 4, 5, status=trial.CANARY)
        return 1,

    # The management network

    def _make_network(self, *names):
        for name in names:
            network_repo.claim(self.engine, name, 'one', LONG)
            network_repo.record(self.engine, name, 'one', network_repo.Ids(
                'network', 'subnet', 'amphorae', 'health-managers'))

    @_call(network_repo.get_row)
    def get_network_row(self):
        self._make_network('net', 'other')
        return 'net',

    @_call(network_repo.get_ids)
    def get_network_ids(self):
        self._make_network('net', 'other')
        return 'net',

    @_call(network_repo.claim)
    def claim_network(self):
        self._make_network('other')
        return 'net', 'one', LONG

    @_call(network_repo.claim)
    def claim_network_that_is_taken(self):
        self._make_network('net', 'other')
        return 'net', 'two', LONG

    get_network_owner = _call(network_repo.get_owner)(get_network_ids)

    @_call(network_repo.renew)
    def renew_network(self):
        self._make_network('net', 'other')
        return 'net', 'one', LONG

    @_call(network_repo.claim_unreconciled)
    def claim_unreconciled(self):
        self._make_network('net', 'other')
        network_repo.release(self.engine, 'net', 'one')
        return 'net', 'two', LONG, 60

    @_call(network_repo.release)
    def release_network(self):
        self._make_network('net', 'other')
        return 'net', 'one'

    @_call(network_repo.release)
    def release_network_that_was_not_made(self):
        network_repo.claim(self.engine, 'net', 'one', LONG)
        return 'net', 'one'

    @_call(network_repo.record)
    def record_network(self):
        self._make_network('net', 'other')
        return 'net', 'one', network_repo.Ids('a', 'b', 'c', 'd'), 2

    @_call(network_repo.forget)
    def forget_network(self):
        self._make_network('net', 'other')
        return 'net', 'one'

    # Health managers

    def _register(self, *numbers):
        for number in numbers:
            hm_repo.register(
                self.engine, f'hm{number}', f'192.0.2.{number}', 5555,
                f'instance{number}', OFFLINE_AFTER)

    def _silence(self, *numbers):
        for number in numbers:
            self.make_older(models.HealthManager, 'keepalive_at', LONG,
                            host=f'hm{number}')

    @_call(hm_repo.register)
    def register(self):
        self._register(1)
        return 'hm2', '192.0.2.2', 5555, 'instance2', OFFLINE_AFTER, 'digest'

    def _register_further(self):
        hm_repo.register(
            self.engine, 'hm1', '192.0.2.1', 5555, 'instance1', OFFLINE_AFTER,
            further={'198.51.100.0/24': '198.51.100.1'})

    @_call(hm_repo.register)
    def leave_further_addresses(self):
        self._register_further()
        return 'hm1', '192.0.2.9', 5555, 'instance1', OFFLINE_AFTER

    @_call(hm_repo.find_taken)
    def find_taken(self):
        self._register_further()
        return ('hm2', {'198.51.100.0/24': '198.51.100.1'}, 5555,
                OFFLINE_AFTER)

    @_call(hm_repo.find_all)
    def find_health_manager_and_further(self):
        self._register_further()
        return 'hm1', 'instance1'

    @_call(hm_repo.register)
    def register_in_place_of_another(self):
        """It moves to the address of one that is dead."""
        self._register(1, 2, 3)
        self._silence(2)
        return 'hm1', '192.0.2.2', 5555, 'instance4', OFFLINE_AFTER

    def _leave(self, *numbers):
        """Health managers go from these addresses to others."""
        self._register(*numbers)
        for number in numbers:
            hm_repo.register(
                self.engine, f'hm{number}', f'192.0.2.{100 + number}', 5555,
                f'instance{number}', OFFLINE_AFTER)

    @_call(hm_repo.register)
    def register_where_another_was(self):
        self._leave(1, 2)
        return 'hm3', '192.0.2.1', 5555, 'instance3', OFFLINE_AFTER

    @_call(hm_repo.register)
    def leave_again(self):
        """An address that is in the table already."""
        self._leave(1, 2)
        with self.engine.begin() as connection:
            left_repo.add(connection, '192.0.2.101:5555')
        return 'hm1', '192.0.2.3', 5555, 'instance1', OFFLINE_AFTER

    @_call(listening_repo.get_health_managers)
    def get_listeners(self):
        self._leave(1, 2)
        keeper_repo.touch(self.engine, 'hk1', ['192.0.2.1:5555'])
        return timing.Settings.from_conf(self.conf),

    @_call(left_repo.get_all)
    def get_left_addresses(self):
        self._leave(1, 2)
        return ()

    @_call(left_repo.delete_expired)
    def delete_expired_left_addresses(self):
        """One that is pinned, one that is not, and one that is new."""
        self._leave(1, 2)
        self.make_older(models.LeftAddress, 'left_at', LONG)
        self._leave(3)
        keeper_repo.touch(self.engine, 'hk1', ['192.0.2.1:5555'])
        return LONG - 100,

    @_call(hm_repo.touch)
    def touch_health_manager(self):
        self._register(1, 2)
        return 'hm1', 'instance1', '192.0.2.1', 5555, OFFLINE_AFTER

    @_call(clocks.age_future)
    def age_future_of_health_managers(self):
        self._register(1, 2)
        self.make_older(models.HealthManager, 'keepalive_at', -LONG,
                        host='hm1')
        return models.HealthManager, OFFLINE_AFTER

    @_call(hm_repo.set_starting)
    def set_starting(self):
        self._register(1, 2)
        return 'hm1', 'another'

    @_call(hm_repo.get_all_at)
    def get_all_health_managers_at(self):
        self._register(1, 2)
        return ()

    @_call(hm_repo.set_offline)
    def set_offline(self):
        self._register(1, 2)
        return 'hm1', 'instance1'

    @_call(hm_repo.change_status)
    def change_status(self):
        self._register(1, 2)
        # A check that has nothing against it.
        return 'hm1', member.ONLINE, member.DRAINING, len

    @_call(hm_repo.set_announced)
    def set_announced(self):
        self._register(1, 2)
        return 'hm1', None, 'ONLINE 192.0.2.1:5555'

    @_call(clocks.get_offset)
    def get_clock_offset(self):
        return ()

    @_call(clocks.find_ahead)
    def find_ahead(self):
        self._register(1, 2)
        return ()

    @_call(hm_repo.set_heard)
    def set_heard(self):
        self._register(1, 2)
        return 'hm1', 'instance1'

    @_call(hm_repo.set_late)
    def set_late(self):
        self._register(1, 2)
        return 'hm1', 'instance1'

    @_call(hm_repo.find)
    def find_health_manager(self):
        self._register(1, 2)
        return 'hm1', 'instance1'

    @_call(hm_repo.delete)
    def delete(self):
        self._register(1, 2)
        row = hm_repo.get_rows(self.engine)[0]
        return row.host, row.keepalive_at

    @_call(hm_repo.find_usurper)
    def find_usurper(self):
        self._register(1, 2)
        return 'hm1', 'another', OFFLINE_AFTER

    @_call(hm_repo.get_all)
    def get_all(self):
        self._register(1, 2)
        return ()

    @_call(hm_repo.get_key_digests)
    def get_key_digests(self):
        self._register(1, 2)
        return OFFLINE_AFTER,

    @_call(hm_repo.get_outdated)
    def get_outdated(self):
        self._register(1, 2)
        return OFFLINE_AFTER,

    @_call(hm_repo.get_plugin_versions)
    def get_plugin_versions(self):
        self._register(1, 2)
        return OFFLINE_AFTER,

    @_call(hm_repo.get_rows)
    def get_health_manager_rows(self):
        self._register(1, 2)
        return ()

    @_call(hm_repo.delete_expired)
    def delete_expired_health_managers(self):
        self._register(1, 2)
        self._silence(2)
        return LONG - 100,

    # Housekeepers

    def _touch(self, *numbers):
        for number in numbers:
            keeper_repo.touch(self.engine, f'hk{number}', LIST)

    @_call(keeper_repo.touch)
    def touch_house_keeper(self):
        self._touch(1, 2)
        return 'hk1', OTHER_LIST

    @_call(keeper_repo.touch)
    def touch_new_house_keeper(self):
        self._touch(1)
        return 'hk2', OTHER_LIST

    @_call(keeper_repo.get_pinned)
    def get_pinned(self):
        self._touch(1, 2)
        return OFFLINE_AFTER,

    @_call(keeper_repo.get_pins)
    def get_pins(self):
        self._touch(1, 2)
        return ()

    @_call(clocks.age_future)
    def age_future_of_house_keepers(self):
        self._touch(1, 2)
        self.make_older(models.HouseKeeper, 'keepalive_at', -LONG,
                        host='hk1')
        return models.HouseKeeper, OFFLINE_AFTER

    @_call(keeper_repo.get_up)
    def get_house_keepers(self):
        self._touch(1, 2)
        return OFFLINE_AFTER,

    @_call(keeper_repo.get_key_digests)
    def get_house_keepers_key_digests(self):
        self._touch(1, 2)
        return OFFLINE_AFTER,

    @_call(listening_repo.get_keys)
    def get_keys(self):
        self._register(1, 2)
        self._publish(1)
        self._touch(1)
        return timing.Settings(10, 60, OFFLINE_AFTER, 2, 60),

    @_call(listening_repo.make_keys)
    def make_keys(self):
        settings, = self.get_keys()
        return (listening_repo.get_health_managers(self.engine, settings),
                generation_repo.get_newest(self.engine))

    @_call(keeper_repo.delete_expired)
    def delete_expired_house_keepers(self):
        self._touch(1, 2, 3)
        for host in ('hk2', 'hk3'):
            self.make_older(models.HouseKeeper, 'keepalive_at', LONG,
                            host=host)
        return LONG - 100,

    # Pause

    @_call(pause_repo.get)
    def get_pause(self):
        return ()

    @_call(pause_repo.begin)
    def begin_pause(self):
        return 60, 'maintenance'

    @_call(pause_repo.begin)
    def begin_another_pause(self):
        pause_repo.begin(self.engine, 60, 'maintenance')
        return 120, 'more maintenance'

    @_call(pause_repo.end)
    def end_pause(self):
        pause_repo.begin(self.engine, 60, 'maintenance')
        return ()

    # Holds of hosts

    @_call(host_hold_repo.get_all)
    def get_host_holds(self):
        self.begin_host_hold_again()
        return ()

    @_call(host_hold_repo.get_seconds)
    def get_host_hold_seconds(self):
        return timeutils.utcnow(),

    @_call(host_hold_repo.find_waiting)
    def find_waiting(self):
        self.begin_host_hold_again()
        return timeutils.utcnow(),

    @_call(host_hold_repo.begin)
    def begin_host_hold(self):
        ids = self.add_amphorae(2)
        amphora_repo.add_missing(self.engine, ids)
        return ('host1', timeutils.utcnow() + datetime.timedelta(seconds=LONG),
                ids)

    @_call(host_hold_repo.begin)
    def begin_host_hold_again(self):
        arguments = self.begin_host_hold()
        host_hold_repo.begin(self.engine, *arguments)
        return arguments

    @_call(host_hold_repo.end)
    def end_host_hold(self):
        self.begin_host_hold_again()
        return 'host1',

    # Drains of zones

    @_call(drain_repo.get_all)
    def get_zone_drains(self):
        self.begin_zone_drain_again()
        return ()

    @_call(drain_repo.get_builds)
    def get_zones_to_build_in(self):
        self.begin_zone_drain_again()
        return ()

    @_call(drain_repo.get_build_zone)
    def get_build_zone(self):
        self.begin_zone_drain_again()
        return 'az1',

    @_call(drain_repo.get_ended)
    def get_ended_zone_drains(self):
        self.begin_zone_drain_again()
        drain_repo.end(self.engine, 'az1')
        return ()

    @_call(drain_repo.begin)
    def begin_zone_drain(self):
        return ('az1', timeutils.utcnow() + datetime.timedelta(seconds=LONG),
                True)

    @_call(drain_repo.begin)
    def begin_zone_drain_again(self):
        arguments = self.begin_zone_drain()
        drain_repo.begin(self.engine, *arguments)
        return arguments

    @_call(drain_repo.end)
    def end_zone_drain(self):
        self.begin_zone_drain_again()
        return 'az1',

    @_call(drain_repo.forget)
    def forget_zone_drain(self):
        self.begin_zone_drain_again()
        drain_repo.end(self.engine, 'az1')
        return {'az1'},

    # Progress

    @_call(progress_repo.get_progress)
    def get_progress(self):
        outcome_repo.record(self.engine, *self.record())
        return 1,

    @_call(progress_repo.get_failed)
    def get_failed(self):
        outcome_repo.record(self.engine, *self.record())
        return 1, 10

    # Ports of nodes

    def _make_ports(self, *hosts):
        for n, host in enumerate(hosts, 1):
            port_repo.claim(self.engine, host, 'one', LONG)
            port_repo.record(self.engine, 'one', host, f'port{n}',
                             f'fa:16:3e:00:00:0{n}', (f'192.0.2.{n}',), host)

    @_call(port_repo.get_all)
    def get_ports(self):
        self._make_ports('node1', 'node2')
        return ()

    @_call(port_repo.get)
    def get_port(self):
        self._make_ports('node1', 'node2')
        return 'node1',

    @_call(port_repo.claim)
    def claim_port(self):
        self._make_ports('node2')
        return 'node1', 'two', LONG

    @_call(port_repo.claim)
    def claim_port_that_is_taken(self):
        self._make_ports('node1', 'node2')
        return 'node1', 'two', LONG

    @_call(port_repo.renew)
    def renew_port(self):
        self._make_ports('node1', 'node2')
        return 'node1', 'one', LONG

    @_call(port_repo.release)
    def release_port(self):
        self._make_ports('node1', 'node2')
        return 'node1', 'one'

    @_call(port_repo.release)
    def release_port_that_was_not_made(self):
        port_repo.claim(self.engine, 'node1', 'one', LONG)
        return 'node1', 'one'

    @_call(port_repo.record)
    def record_port(self):
        self._make_ports('node1', 'node2')
        return ('one', 'node1', 'port9', 'fa:16:3e:00:00:09',
                ('192.0.2.9',), 'node1', 1)

    @_call(port_repo.set_plugged)
    def set_plugged(self):
        self._make_ports('node1', 'node2')
        return 'node1',

    @_call(port_repo.set_registered)
    def set_registered(self):
        self._make_ports('hm1', 'hm2', 'hm3')
        self._register(1, 2)
        return ()

    @_call(port_repo.forget)
    def forget_port(self):
        self._make_ports('node1', 'node2')
        return 'node1', 'one'

    @_call(previous_repo.get_all)
    def get_all_previous(self):
        self._acknowledge()
        return amphora_repo.get_rows(self.engine),

    @_call(previous_repo.get_known)
    def get_known_previous(self):
        self._acknowledge()
        return amphora_repo.get_rows(self.engine),

    @_call(previous_repo.get_claimed)
    def get_claimed_previous(self):
        ids = self._acknowledge()
        claim_repo.claim_due(self.engine, 3, 'batch3', 2, LONG)
        return 'batch3', ids

    def _add_zones(self):
        self.add_zone('edge', network_id='network1')
        self.add_zone('centre')
        return [self.add_amphora_in(zone)
                for zone in ('edge', 'edge', 'centre', None)]

    @_call(zone_repo.get_all_names)
    def get_names_of_zones(self):
        self._add_zones()
        return ()

    @_call(zone_repo.get_names)
    def get_all_zones(self):
        self._add_zones()
        return ['edge'],

    @_call(zone_repo.get_names)
    def get_zones(self):
        return ['edge', '192.0.2.0/24'], self._add_zones()

    @_call(used_repo.get_senders)
    def get_senders(self):
        outcome_repo.record(self.engine, *self.record())
        return ()

# SPDX-License-Identifier: Apache-2.0

"""Carries out a replacement, phase by phase; see octavia_hmsync.image.phases.

A dead housekeeper may have done a part of a phase already.
"""

import functools
import types
import typing

from oslo_log import log as logging
from taskflow import engines
from taskflow import exceptions as taskflow_exc
from taskflow import states

from octavia_hmsync.amphora import removal
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.db import api
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import phases
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import pair
from octavia_hmsync.image.replace import prover
from octavia_hmsync.image.replace import single
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync import watched_flow

LOG = logging.getLogger(__name__)

# Seconds for an answer of an amphora that is to go: if it is gone, none comes,
# and its load balancer is locked meanwhile.
_LOOK_TIMEOUT = 5
# Tries of the way back: serving clients depends on it.
_BACK_TRIES = 3
# Seconds between them; the longest is for a service that is down.
_BACK_PAUSE = 2
_LONGEST_BACK_PAUSE = 10

# In these phases the old amphora may have lost the VIP.
_SWITCHED = (phases.Phase.SWITCH, phases.Phase.PROVE_SWITCHED,
             phases.Phase.BACK)


class _Steps:
    """Records the new amphora's id before anything else of it is built."""

    def __init__(self, work):
        self._work = work

    def on_running(self, _state, details):
        """Called for each task that begins."""
        self._work.is_idle = details.get('task_name', '').endswith(
            compat_amphora.WAITING_TASKS)

    def check(self, task_name, result):
        """Called for each task that has ended, before the next begins."""
        self._work.is_idle = False
        if task_name.endswith(compat_amphora.CREATE_TASK):
            self._work.new_id = result
            self._work.enter(phases.Phase.BUILD,
                             new_amphora_id=self._work.new_id)
        else:
            self._work.check()


def build(work: work_.Work, load_balancer, role, zone=None):
    """Build an amphora for a load balancer, and plug it in.

    Afterwards .new_id of the work is its id, even if that failed.

    :param zone: its compute zone where its profile names none; None for the
                 one where Octavia builds.
    :raises BuildFailed: with the reason; its parts were deleted again, as far
                         as possible.
    :raises Lost, Stopped: as Work.check(); its parts are left.
    """
    flow, store = compat_amphora.make_build_flow(
        load_balancer, role, zone or drain_repo.get_build_zone(
            work.engine, work.conf.nova.availability_zone))
    engine = engines.load(flow, store=store)
    steps = _Steps(work)
    engine.atom_notifier.register(states.RUNNING, steps.on_running)
    watch = watched_flow.Watch(engine, steps.check)
    try:
        engine.run()
    except Exception as e:
        # Any error of the services that the flow's tasks ask.
        LOG.debug('The flow failed: %s', e)
        raise exceptions.BuildFailed(
            f'The new amphora could not be built: {_describe(e)}.') from e
    finally:
        work.is_idle = False
    watch.finish()


def _describe(error):
    """Return in one line why a flow failed."""
    if isinstance(error, taskflow_exc.WrappedFailure):
        # Of several failures, the first.
        return next(iter(error)).exception_str.split('\n', maxsplit=1)[0]
    text = ' '.join(str(error).split()).rstrip('.')
    return f'{type(error).__name__}: {text[:300]}'


class Process(attempt.Attempt):
    """One replacement, make before break."""

    _first_phase = phases.Phase.BUILD

    def __init__(self, work, inventory):
        super().__init__(work, inventory)
        self._topology: typing.Any = None
        self._prover: typing.Any = None

    def _take_up(self, following):
        self._choose_topology()
        if following is phases.Next.BACK:
            return self._go_back(attempt.DIED, attempt.skip)
        if following is phases.Next.PROOF:
            return self._go_on_with_proof()
        return self._finish()

    def _choose_topology(self):
        kind = (single.Single
                if self._get_model().topology == compat_amphora.SINGLE
                else pair.Pair)
        self._topology = kind(self._work)
        self._prover = prover.Prover(self._work, self._topology.get_holders)

    def _replace(self):
        self._choose_topology()
        error = self._survive(self._carry_out)
        if error:
            silent = self._find_silent()
            # Then the failure says nothing about the new image.
            return self._go_back(
                f'{error} {silent}' if silent else str(error),
                attempt.skip if silent or error.is_passing else None)
        return self._finish()

    def _find_silent(self):
        """Tell which of the amphorae that are to stay do not answer.

        Octavia is about to fail these over, as soon as it can.
        """
        vip = self._get_model().vip.ip_address
        new_ids = self._get_new_ids()
        there = {amphora_id: amphora for amphora_id, amphora in
                 self._work.read().amphorae.items()
                 if amphora_id not in new_ids}
        silent = []
        for amphora_id, holds in self._work.find_holders(
                there.values(), vip).items():
            if holds is None:
                try:
                    self._work.insist(
                        self._work.agent_of(there[amphora_id]).holds, vip)
                except work_.AGENT_ERRORS:
                    silent.append(amphora_id)
        return silent and (f'Amphora {", ".join(silent)} does not answer, '
                           f'and may be one that Octavia fails over.')

    def _carry_out(self):
        work = self._work
        self._prover.remember()
        self._build(work.get_load_balancer())
        work.enter(phases.Phase.PROVE)
        self._topology.configure(work.read().amphorae.get(work.old_id),
                                 self._get(work.new_id))
        self._prover.prove(is_switched=False)
        work.enter(phases.Phase.SWITCH)
        self._switch()
        work.enter(phases.Phase.PROVE_SWITCHED)
        self._prover.prove(is_switched=True)

    def _build(self, found):
        self._build_one(found, next(each.role for each in found.amphorae
                                    if each.id == self._work.old_id))

    def _build_one(self, found, role):
        build(self._work, found, role, self._zone)
        self._made.add(self._work.new_id)
        self._check_place()

    def _switch(self):
        old = self._work.read().amphorae.get(self._work.old_id)
        if self._prover.is_alone:
            LOG.warning('Replacement of load balancer %s: amphora %s died '
                        'meanwhile, and the new one takes its place at once.',
                        self._work.load_balancer_id, self._work.old_id)
            old = None
        self._topology.switch(old, self._get(self._work.new_id))

    def _get(self, amphora_id):
        """Return an Amphora of the evidence, or raise NotProven."""
        found = self._work.read().amphorae.get(amphora_id)
        if found is None:
            raise exceptions.NotProven(f'Amphora {amphora_id} is gone.')
        return found

    def _go_on_with_proof(self):
        """Continue the work of a dead housekeeper after the switch."""
        error = None
        if self._work.phase == phases.Phase.SWITCH:
            # The new amphora is proven to serve. An interrupted switch may
            # have left two holders of the VIP, or a preferred one.
            error = self._survive(self._switch)
        self._work.enter(phases.Phase.PROVE_SWITCHED)
        error = error or self._survive(self._prover.prove, True)
        if error:
            return self._go_back(f'{attempt.DIED} {error}',
                                 attempt.skip)
        return self._finish()

    def _go_back(self, reason, make_outcome=None):
        """Restore the old state.

        A serving amphora is not given up for a broken one: if the old amphora
        cannot serve again, or is gone, the new one stays.
        """
        was_switched = self._work.phase in _SWITCHED
        self._work.enter(phases.Phase.BACK)
        evidence = self._work.read()
        new_ids = self._get_new_ids()
        there = [evidence.amphorae[old_id] for old_id in self._get_old_ids()
                 if old_id in evidence.amphorae]
        old = there[0] if there else None
        new = evidence.amphorae.get(self._work.new_id)
        if new is not None and evidence.amphorae.keys() <= set(new_ids):
            return self._keep(reason, new)
        if old is not None and was_switched:
            error = self._give_back(old, new)
            if error:
                self._remark(f'The old amphora cannot have the VIP again: '
                             f'{error}')
            if error and self._serves(evidence):
                return self._finish(f'{reason} {self._remarks}')
        left = []
        for amphora_id in new_ids:
            left += self._remove(amphora_id, evidence)
        self._remark(_describe_left(left))
        self._remark(self._survive(self._topology.settle, self._work.new_id))
        reason = f'{reason} {self._remarks}'.rstrip()
        octavia_repo.set_right(self._work.engine, [
            amphora_id for amphora_id in evidence.amphorae
            if amphora_id not in new_ids])
        if make_outcome is None and self._prover.were_members_at_fault():
            # A rollout does not end because of members.
            return self._unlock(attempt.skip(
                f'{reason} They are no better without it.'))
        return self._unlock((make_outcome or attempt.fail)(reason))

    def _keep(self, reason, new):
        """Keep the new amphora: the row of the old one is gone."""
        self._survive(self._topology.switch, None, new)
        reason = (f'{reason} Amphora {self._work.old_id} is gone, so that '
                  f'amphora {new.id} stays.')
        outcome = self._finish(reason)
        return (outcome if self._serves(self._work.read()) else
                attempt.fail(f'{reason} It is not shown to serve.'))

    def _serves(self, evidence):
        """Tell whether a new amphora has the VIP, and the listeners."""
        return any(self._prover.serves(evidence.amphorae.get(amphora_id))
                   for amphora_id in self._get_new_ids())

    def _give_back(self, old, new):
        """Return the VIP to the old amphora; tell why that fails.

        An agent may not answer for a moment. If a service is down, that says
        nothing about the amphora, and no working amphora may be given up
        without the VIP at another one: the service is waited for.
        """
        tries, pause, told = _BACK_TRIES, _BACK_PAUSE, None
        while True:
            error = self._survive(self._topology.back, old, new)
            if error and not error.is_passing:
                tries -= 1
            if not error or not tries:
                return error
            if error.is_passing and error != told:
                told = error
                self._work.note(f'Amphora {old.id} is to have the VIP again, '
                                f'and until it has, the load balancer stays '
                                f'locked: {error}')
            self._work.pause(pause)
            pause = min(2 * pause, _LONGEST_BACK_PAUSE)

    def _get_old_ids(self):
        return [self._work.old_id]

    def _get_new_ids(self):
        return sorted({self._work.new_id, *octavia_repo.get_unfinished(
            self._work.engine, self._work.load_balancer_id)} - {None})

    def _remove(self, amphora_id, evidence):
        """Delete an amphora; return what could not be deleted, in words."""
        amphora = evidence.amphorae.get(amphora_id, types.SimpleNamespace(
            id=amphora_id, compute_id=None, vrrp_port_id=None,
            lb_network_ip=None))
        return removal.remove(self._work, amphora,
                              functools.partial(self._leave, amphora))

    def _leave(self, amphora):
        """Make an amphora give up the VIP; tell whether its agent answers."""
        if not amphora.lb_network_ip:
            return False
        try:
            # A request to an amphora that is gone may take its whole time-out.
            self._work.agent_of(amphora, _LOOK_TIMEOUT).get_listeners()
            self._topology.leave(amphora)
        except exceptions.AgentUnreachable:
            return False
        except exceptions.HMSyncException as e:
            LOG.debug('%s', e)
        except Exception as e:
            if api.is_database_error(e):
                raise
            # An error of Octavia's network driver; the agent has answered.
            LOG.debug('Amphora %s was not told to leave the VIP: %r',
                      amphora.id, e)
        return True

    def _finish(self, reason=None):
        """Delete the old amphora, and unlock the load balancer."""
        if self._work.phase != phases.Phase.UNLOCK:
            self._enter_delete_old()
            evidence, left = self._work.read(), []
            for amphora_id in self._get_old_ids():
                left += self._remove(amphora_id, evidence)
            problem = self._survive(self._topology.settle, self._work.old_id)
            reason = ' '.join(str(part) for part in (
                reason, _describe_left(left), problem) if part) or None
            self._work.enter(phases.Phase.UNLOCK, reason=reason)
        return self._unlock(attempt.Outcome(replace_repo.DONE, reason))

    def _enter_delete_old(self):
        self._work.enter(phases.Phase.DELETE_OLD)


def _describe_left(left):
    return left and (f'Could not be deleted: {", ".join(left)}; see '
                     f'"octavia-hmsync image leaks".')

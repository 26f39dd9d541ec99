# SPDX-License-Identifier: Apache-2.0

"""Replaces amphorae, on request and for rollouts.

Its rollout_keeper chooses the load balancers of the active rollout. Without a
route to the agents every amphora looks silent, and all replacements would
fail: then it replaces none.
"""

import threading
import time

from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync import crew
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import held as held_
from octavia_hmsync.image import causes
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import phases
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import change
from octavia_hmsync.image.replace import process
from octavia_hmsync.image.replace import stock
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image.rollout import keeper as rollout_keeper
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.worker import scout

LOG = logging.getLogger(__name__)


class Route:
    """Probes agents in doubt; probe() tells if one of a list is reached."""

    def __init__(self, conf, engine, probe=None, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._probe = probe or (
            lambda ips: agent_client.does_anybody_answer(conf, ips))
        self._clock = clock
        self._name = scout.get_name(scout.HOUSEKEEPING, conf.host)
        # Until the first probe the route is in doubt.
        self._doubt = threading.Event()
        self._doubt.set()
        self._probed_at = float('-inf')
        self._is_blocked = False

    def doubt(self):
        """Probe at the next look: a replacement has failed."""
        self._doubt.set()

    def is_there(self):
        """Tell whether agents can be reached, or no controller can."""
        is_there = self._is_there()
        if self._is_blocked and is_there:
            LOG.info('This controller can reach the agents of amphorae again, '
                     'and replaces amphorae.')
        elif not is_there and not self._is_blocked:
            LOG.warning(
                'This controller cannot reach the agents of amphorae that '
                'others have reached, and replaces none. Check the route to '
                'the amphora management network, its security group and '
                'firewalls: TCP %d of amphorae from this controller.',
                self._conf.haproxy_amphora.bind_port)
        self._is_blocked = not is_there
        return is_there

    def _is_there(self):
        if self._is_left_to_others():
            return False
        if not self._doubt.is_set():
            return True
        now = self._clock()
        if now - self._probed_at < scout.PROBE_INTERVAL:
            # The last result holds until then.
            return not self._is_blocked
        self._probed_at = now
        reachable = uploader_repo.get_reachable(self._engine, self._name)
        if reachable and not self._probe(list(reachable)):
            return False
        self._doubt.clear()
        return True

    def _is_left_to_others(self):
        """Tell whether uploads of lists left these agents to others."""
        uploaders = {each.name: each for each in
                     uploader_repo.get_all(self._engine)
                     if not scout.is_worker(each)}
        own = uploaders.pop(self._name, None)
        return (own is not None and reach.is_suspect(own) and
                bool(reach.get_able(uploaders.values(),
                                    self._conf.hmsync.offline_after)))


class Replacer:
    """Takes up replacements, in a thread for each load balancer.

    :param ways: by topology, the class that carries out a replacement
                 whatever its mode is, as attempt.Attempt.
    """

    def __init__(self, conf, engine, wake, ways):
        self._conf = conf
        self._ways = ways
        self._engine = engine
        self._claims = held_.Claims(
            engine, claims_repo, conf.host,
            work_.CLAIM_EXPIRY)
        self._route = Route(conf, engine)
        self._rollouts = rollout_keeper.RolloutKeeper(conf, engine)
        # By the owner of each claim.
        self._crew: crew.Crew[str] = crew.Crew(
            'hmsync-replace', lambda _result: wake())
        self._works: dict[str, work_.Work] = {}

    @property
    def _options(self):
        return self._conf[image_conf.GROUP]

    def run_once(self):
        """Begin the due replacements; raise DBError or CloudUnavailable."""
        rollout = self._rollouts.watch()
        room = self._options.replacements_at_once - len(
            self._crew.keys())
        if room > 0 and not self._route.is_there():
            # Other housekeepers take up waiting and abandoned ones.
            return
        while room > 0 and not self._claims.stopping.is_set():
            # Each claim has an owner of its own.
            owner = self._claims.make_owner()
            claimed = claims_repo.claim(
                self._engine, owner, 1, self._claims.expiry)
            if not claimed:
                break
            self._begin(claimed[0], owner)
            room -= 1
        if room > 0 and rollout is not None:
            self._go_on_with_rollout(rollout, room)

    def stop(self, timeout):
        """Stop replacements at a point where another housekeeper can go on.

        :param timeout: seconds to wait. Replacements that wait for an
                        instance are released at once; where a service does not
                        answer, the claim lapses.
        """
        self._claims.stopping.set()
        for owner in self._crew.join(timeout):
            work = self._works.get(owner)
            if work is not None and work.is_idle:
                work.held.release()
        self._claims.end()

    def _go_on_with_rollout(self, rollout, room):
        version = rollout.version
        for candidate, is_canary in self._rollouts.decide(rollout)[:room]:
            new = replace_repo.New(
                uuidutils.generate_uuid(), candidate.load_balancer_id,
                rollout.settings.mode, candidate.target_image_id,
                candidate.topology, candidate.flavor_id,
                candidate.availability_zone, is_canary,
                operating_status=candidate.operating_status,
                cause=rollout.settings.cause,
                cause_value=rollout.settings.cause_value,
                was_spread=candidate.was_spread)
            owner = self._claims.make_owner()
            begun = claims_repo.begin(
                self._engine, rollout.id, version, [new], owner,
                self._claims.expiry)
            if begun is None:
                # The rollout was changed: the next look decides again.
                return
            version += 1
            if begun:
                self._begin(replace_repo.get(self._engine, new.id), owner)

    def _begin(self, replacement, owner):
        self._crew.begin(owner, self._run, replacement,
                         self._claims.hold(replacement.id, owner),
                         about=replacement.id)

    def _run(self, replacement, held):
        try:
            self._carry_out(replacement, held)
        except exceptions.Lost:
            LOG.warning('Replacement of load balancer %s was taken up by '
                        'another housekeeper.', replacement.load_balancer_id)
        except exceptions.Stopped:
            held.release()
        except Exception as e:
            self._give_up(replacement, held.owner, e)
        finally:
            self._works.pop(held.owner, None)
            self._claims.forget(held)

    def _choose_way(self, replacement):
        """Return the class that carries a replacement out."""
        return self._ways.get(replacement.topology) or (
            stock.Stock if replacement.mode == rollout_repo.FAILOVER else
            change.Process if replacement.cause == causes.Kind.TOPOLOGY else
            process.Process)

    def _carry_out(self, replacement, held):
        work = self._works[held.owner] = work_.Work(
            self._conf, self._engine, replacement, held)
        LOG.info('Replacement of load balancer %s to image %s begins.',
                 replacement.load_balancer_id, replacement.target_image_id)
        outcome = self._choose_way(replacement)(work, inventory.Inventory(
            self._conf, self._engine)).run()
        self._finish(replacement, held.owner, outcome)

    def _finish(self, replacement, owner, outcome):
        reason, wait = outcome.reason, outcome.wait
        if outcome.state == replace_repo.SKIPPED:
            self._route.doubt()
            if replacement.rollout_id is not None and wait is not None:
                wait = limits.get_wait(wait, aftermath_repo.count_skipped(
                    self._engine, replacement))
                if wait is None:
                    reason = (f'{reason.rstrip(".")}. It was tried '
                              f'{limits.TRIES} times: this rollout leaves '
                              f'it alone.')
        log = (LOG.warning if outcome.state in (replace_repo.FAILED,
                                                replace_repo.REFUSED)
               else LOG.info)
        log('Replacement of load balancer %s is %s%s.',
            replacement.load_balancer_id, outcome.state,
            f': {reason.rstrip(".")}' if reason else '')
        claims_repo.finish(self._engine, replacement.id, owner,
                           outcome.state, reason, wait)

    def _give_up(self, replacement, owner, error):
        """Release a replacement for a housekeeper that can carry it out.

        If nothing was changed yet, it is queued again where a service gave no
        answer, and FAILED where something else is wrong.
        """
        work = self._works.get(owner)
        phase = replacement.phase if work is None else work.phase
        if api.is_database_error(error):
            self._leave(replacement, api.describe(error))
            return
        if isinstance(error, exceptions.HMSyncException):
            reason = str(error)
        else:
            reason = (f'{type(error).__name__}, see the log of the '
                      f'housekeeper {self._conf.host}.')
            LOG.exception('Replacement of load balancer %s:',
                          replacement.load_balancer_id)
        if not phases.is_begun(phase):
            self._finish(replacement, owner, (
                attempt.skip(reason)
                if isinstance(error, exceptions.CloudUnavailable)
                else attempt.fail(reason)))
            return
        self._leave(replacement, reason)
        # Shows the operator why the replacement does not go on.
        claims_repo.set_phase(self._engine, replacement.id, owner,
                              self._claims.expiry, phase, reason=reason)

    @staticmethod
    def _leave(replacement, reason):
        LOG.warning('The replacement of load balancer %s is left to '
                    'another housekeeper: %s.', replacement.load_balancer_id,
                    reason.rstrip('.'))

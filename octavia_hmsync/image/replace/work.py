# SPDX-License-Identifier: Apache-2.0

"""What the steps of one replacement share."""

import contextlib
import dataclasses
import threading
import time

from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa
import tenacity

from octavia_hmsync.amphora import agent
from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import listener_plan
from octavia_hmsync.amphora import telling
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync import exceptions
from octavia_hmsync import held as held_
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.db import lock as lock_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import phases
from octavia_hmsync.sync.db import amphora_view as view_repo

LOG = logging.getLogger(__name__)

# Seconds after which another housekeeper takes up a replacement. Less would
# unlock the load balancer sooner; but where the database hangs for
# longer two housekeepers might work on it.
CLAIM_EXPIRY = 120
# Seconds. An amphora of which nothing comes for so long, not even of TLS, is
# taken for dead: clients may wait until the VIP is back. A host that is
# overloaded has as long as Octavia gives it.
_AGENT_SILENCE = 30
# Seconds between two looks at something that takes its time.
INTERVAL = 0.2
# Seconds. An agent restarts after a new configuration; to an agent that hangs
# each request takes its whole time-out.
_PATIENCE = 10
_PAUSE = 0.7
# Seconds between two looks whether an operator has cancelled it.
_CANCEL_INTERVAL = 1

AGENT_ERRORS = (exceptions.AgentUnreachable, exceptions.AgentRefused)


class Listeners:
    """The listeners of a load balancer, with all their secrets.

    A serving amphora gets no configuration while a certificate is missing,
    because Octavia's driver would leave out that listener.

    :param secret_timeout: seconds for the certificate manager, which has no
                           time-out of its own.
    :param agent_timeout: seconds for all that an agent is told at once.
    :raises SecretsUnavailable: if something cannot be fetched in time.
    """

    def __init__(self, client, load_balancer, secret_timeout, agent_timeout):
        self._client = client
        self._agent_timeout = agent_timeout
        self._planner = compat_driver.Planner()
        self._fetch(load_balancer, secret_timeout)

    def _fetch(self, load_balancer, timeout):
        problems: list[exceptions.SecretsUnavailable | None] = []

        def fetch():
            try:
                listener_plan.fetch_secrets(self._planner,
                                            load_balancer.listeners)
            except exceptions.SecretsUnavailable as e:
                problems.append(e)
            else:
                problems.append(None)

        thread = threading.Thread(target=fetch, daemon=True,
                                  name='hmsync-secrets')
        thread.start()
        thread.join(timeout)
        if not problems:
            raise exceptions.SecretsUnavailable(
                f'The certificate manager does not hand out what the '
                f'listeners of load balancer {load_balancer.id} need within '
                f'{timeout} s, and no amphora was changed.')
        if problems[0] is not None:
            raise problems[0]

    def update(self, load_balancer, amphora):
        """Give an amphora its listeners.

        :param load_balancer: the data model to render, reduced to the amphorae
                              that are to be peers.
        :raises AgentRefused: if the amphora does not take them.
        """
        if not load_balancer.listeners:
            return
        target = telling.Target(
            amphora.id, amphora.id, amphora.lb_network_ip,
            lambda facts: listener_plan.plan(self._planner, load_balancer,
                                             amphora, facts))
        for reason in telling.tell(self._client, [target],
                                   self._agent_timeout).values():
            raise exceptions.AgentRefused(
                f'The listeners of load balancer {load_balancer.id} are not '
                f'taken: {reason.rstrip(".")}.')


class Cancelled(exceptions.HMSyncException):
    """An operator wants the replacement back."""


@dataclasses.dataclass(eq=False)
class Work:
    """A replacement of this process; making it may raise CloudUnavailable."""

    conf: cfg.ConfigOpts
    engine: sa.Engine
    replacement: replace_repo.Replacement
    held: held_.Held

    def __post_init__(self):
        self.phase = self.replacement.phase
        self.old_id = self.replacement.old_amphora_id
        self.new_id = self.replacement.new_amphora_id
        # Whether nothing is changed now, and nothing interrupts that.
        self.is_idle = False
        # Whether an operator's wish has ended something here.
        self.was_interrupted = False
        self._is_interruptible = False
        self._looked_at = float('-inf')
        self._client = agent_client.RestAgentClient(self.conf)
        try:
            # That of Neutron asks for its extensions.
            self.network = compat_amphora.load_network_driver()
            self.compute = compat_amphora.load_compute_driver()
        except ks_exc.ClientException as e:
            raise exceptions.CloudUnavailable(
                f'A driver of the network or compute service cannot be '
                f'used: {" ".join(str(e).split()).rstrip(".")}.') from e

    @property
    def owner(self):
        return self.held.owner

    @property
    def load_balancer_id(self):
        return self.replacement.load_balancer_id

    @property
    def options(self):
        return self.conf[image_conf.GROUP]

    def check(self):
        """Check that this process may go on.

        :raises Lost: if another process has claimed the replacement.
        :raises Stopped: if this process ends.
        :raises Cancelled: within interruptible(), before there is no way
                           back, if an operator wants it back.
        """
        self.held.check()
        now = time.monotonic()
        if (self._is_interruptible and phases.may_be_cancelled(self.phase) and
                now - self._looked_at >= _CANCEL_INTERVAL):
            self._looked_at = now
            reason = self.find_cancel()
            if reason is not None:
                self.was_interrupted = True
                raise Cancelled(f'An operator has cancelled it: {reason}.')

    @contextlib.contextmanager
    def interruptible(self):
        """Have check() raise Cancelled; who enters this knows the way back."""
        self._is_interruptible = True
        try:
            yield
        finally:
            self._is_interruptible = False

    def find_cancel(self):
        """Return why an operator wants it back, None if none does."""
        return cancel_repo.get_request(self.engine, self.replacement.id)

    def pause(self, seconds=INTERVAL):
        """Wait, unless there is no reason any more; raise as check()."""
        self.held.pause(seconds)
        self.check()

    def enter(self, phase: phases.Phase, topology=None, **values):
        """Record the phase that begins, and values; raise as check().

        :param topology: that of the load balancer, which changes with it.
        """
        self.check()
        if topology is not None:
            lock_repo.change_topology(
                self.engine, self.replacement, self.owner, CLAIM_EXPIRY, phase,
                topology)
        else:
            self.held.require(claims_repo.set_phase(
                self.engine, self.replacement.id, self.owner, CLAIM_EXPIRY,
                phase, **values))
        self.phase = phase
        LOG.info('Replacement of load balancer %s: %s.',
                 self.load_balancer_id, phase)

    def note(self, reason):
        """Record why it takes so long, None if it goes on; as check()."""
        self.check()
        if reason is not None:
            LOG.warning('Replacement of load balancer %s, phase %s: %s',
                        self.load_balancer_id,
                        self.phase or phases.Phase.LOCK, reason)
        self.held.require(claims_repo.set_phase(
            self.engine, self.replacement.id, self.owner, CLAIM_EXPIRY,
            self.phase, reason=reason))

    def read(self):
        """Return the Evidence of the tables."""
        return evidence_repo.read(self.engine, self.load_balancer_id)

    def read_views(self, since):
        """Return amphorae's Views since then, in order, if there are any."""
        return view_repo.get(self.engine, self.load_balancer_id, since)

    def get_load_balancer(self, without=()):
        """Return the data model, without some amphorae, or raise NotProven."""
        found = compat_amphora.get_load_balancer(self.load_balancer_id)
        if found is None:
            raise exceptions.NotProven(
                f'Load balancer {self.load_balancer_id} is gone.')
        found.amphorae = [
            amphora for amphora in found.amphorae
            if amphora.status != compat.DELETED and amphora.id not in without]
        return found

    def agent_of(self, amphora, timeout=None):
        """Return an amphora's Agent.

        :param timeout: seconds for each request; as Octavia's if None.
        """
        return agent.Agent(
            self._client, amphora.id, amphora.lb_network_ip,
            timeout or self.conf.haproxy_amphora.rest_request_read_timeout,
            _AGENT_SILENCE)

    def ask_network(self, amphora_id, function, *arguments):
        """Ask Neutron how one is plugged in, or raise CloudUnavailable."""
        try:
            return function(*arguments)
        except Exception as e:  # A driver may raise anything.
            if not compat_amphora.is_no_answer(e):
                raise
            raise exceptions.CloudUnavailable(
                f'Neutron does not tell how amphora {amphora_id} is plugged '
                f'in: see the log of the housekeeper {self.conf.host}, and '
                f'whether Neutron and Keystone run.') from e

    def insist(self, function, *arguments):
        """Call what asks an agent, again and again for some seconds.

        :raises AgentUnreachable, AgentRefused: those of the last time.
        :raises Lost, Stopped: as check().
        """
        for attempt in tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(AGENT_ERRORS),
                stop=tenacity.stop_after_delay(_PATIENCE),
                sleep=self.pause, wait=tenacity.wait_fixed(_PAUSE),
                reraise=True):
            with attempt:
                return function(*arguments)

    def find_holders(self, amphorae, vip):
        """Return {id: whether it says that it has the VIP, or None}."""
        found = {}
        for amphora in amphorae:
            try:
                found[amphora.id] = self.agent_of(amphora).holds(vip)
            except AGENT_ERRORS as e:
                LOG.debug('%s', e)
                found[amphora.id] = None
        return found

    def get_listeners(self, load_balancer):
        """Fetch all that the listeners need, or raise SecretsUnavailable."""
        # Octavia gives a single request as long.
        return Listeners(
            self._client, load_balancer, self.options.image_timeout,
            self.conf.haproxy_amphora.rest_request_read_timeout)

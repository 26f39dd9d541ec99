# SPDX-License-Identifier: Apache-2.0

"""Changes the topology of a load balancer, from SINGLE to a pair or back.

An amphora cannot change sides: the agent of a SINGLE one has the VIP in its
interface, in a pair keepalived has it. So all amphorae of the new topology are
built and proven beside the old ones. The role of an amphora tells which side
it is of.

The VIP goes to the other side in two ways, each of which is also the way back
of the other. For a moment both sides have it, and serve. Octavia's row has the
old topology until the old amphorae are deleted: until then all can be undone.
"""

import functools

from oslo_log import log as logging

from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image import phases
from octavia_hmsync.image.replace import own_list
from octavia_hmsync.image.replace import pair
from octavia_hmsync.image.replace import process
from octavia_hmsync.image.replace import prover
from octavia_hmsync.image.replace import single
from octavia_hmsync.image.replace import work as work_

LOG = logging.getLogger(__name__)

_OTHER = {compat_amphora.SINGLE: compat_amphora.ACTIVE_STANDBY,
          compat_amphora.ACTIVE_STANDBY: compat_amphora.SINGLE}


class Change:
    """Configures amphorae, and moves the VIP from one side to the other.

    As single.Single and pair.Pair; it finds old and new amphorae itself.
    """

    def __init__(self, work):
        self._work = work
        self.topology = work.replacement.cause_value
        self._single = single.Single(work)
        self._pair = pair.Pair(work)

    def get_new_ids(self):
        """Return the ids of the new amphorae.

        :raises NotProven: if one of them is gone.
        """
        found = [each.id for each in self._read(self.topology).amphorae]
        if len(found) != compat.AMPHORAE_OF_TOPOLOGY[self.topology]:
            raise exceptions.NotProven(
                f'Of the new amphorae, only {", ".join(found) or "none"} '
                f'is left.')
        return found

    def get_holders(self, _old_id, _new_id, is_switched):
        """Return the ids of possible holders of the VIP."""
        return frozenset(each.id for each in self._read(
            self.topology if is_switched else _OTHER[self.topology]).amphorae)

    def configure(self, _old, _new):
        """Configure the new amphorae, without the VIP.

        :raises SecretsUnavailable: if not all certificates can be fetched.
        :raises AgentUnreachable, AgentRefused: if one of them fails.
        :raises CloudUnavailable: if Neutron does not tell what the switch
                                  will need.
        :raises UnknownTemplate: if Octavia renders something unknown.
        """
        if self._is_to_pair:
            compat_amphora.ensure_vrrp_group(self._work.load_balancer_id)
        load_balancer = self._read(self.topology)
        if self._is_to_pair:
            # Its amphorae do not hear each other without a rule for VRRP.
            self._work.ask_network(
                load_balancer.amphorae[0].id, self._work.network.update_vip,
                load_balancer)
        listeners = self._work.get_listeners(load_balancer)
        for each in load_balancer.amphorae:
            own_list.give_of_zone(self._work, each)
            if self._is_to_pair:
                self._pair.set_interface(each)
            listeners.update(load_balancer, each)
        # Neutron is asked before the VIP moves, for both directions.
        for load_balancer in map(self._read, _OTHER):
            for each in load_balancer.amphorae:
                if load_balancer.topology == compat_amphora.SINGLE:
                    self._single.describe(load_balancer, each)
                else:
                    pair.hush(self._pair.render(load_balancer, each))

    def switch(self, old, _new):
        """Move the VIP to the new side.

        :param old: None if the old side is dead.
        :raises AgentUnreachable, AgentRefused: if an amphora fails.
        :raises NotProven: if the new side does not take it.
        """
        if not self._is_to_pair:
            for each in self._read(compat_amphora.SINGLE).amphorae:
                own_list.give(self._work, each, compat_amphora.SINGLE)
            # Without keepalived they send no heartbeats, and are not dead.
            octavia_repo.set_busy(self._work.engine, [
                each.id for each in
                self._read(compat_amphora.ACTIVE_STANDBY).amphorae])
        self._move(self.topology, old is not None)

    def back(self, _old, _new):
        """Move the VIP back to the old side.

        :raises AgentUnreachable, AgentRefused: if the old side fails.
        :raises NotProven: if it does not take it.
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        self._move(_OTHER[self.topology], False)

    def leave(self, amphora):
        """Ensure that an amphora to be deleted does not have the VIP.

        :raises AgentUnreachable, AgentRefused: if it may have failed.
        """
        alone = self._read(compat_amphora.SINGLE).amphorae
        if amphora.id in {each.id for each in alone}:
            self._single.leave(amphora)
        else:
            self._pair.leave(amphora)

    def settle(self, _gone_id):
        """Let a remaining SINGLE amphora announce the VIP once more.

        The amphorae of a pair know no others, and announce it themselves.

        :raises AgentUnreachable, AgentRefused: if it fails.
        """
        if self._work.get_load_balancer().topology == compat_amphora.SINGLE:
            self._single.announce(self._read(compat_amphora.SINGLE))

    @property
    def _is_to_pair(self):
        return self.topology == compat_amphora.ACTIVE_STANDBY

    def _read(self, topology):
        """Return the data model as if it had one side alone."""
        found = self._work.get_load_balancer()
        found.topology = topology
        found.amphorae = [each for each in found.amphorae
                          if each.role in compat_amphora.ROLES[topology]]
        return found

    def _move(self, topology, is_strict):
        if topology == compat_amphora.ACTIVE_STANDBY:
            self._give_to_pair(is_strict)
        else:
            self._give_to_single(is_strict)

    def _give_to_pair(self, is_strict):
        load_balancer = self._read(compat_amphora.ACTIVE_STANDBY)
        self._for_each(is_strict, self._pair.start, load_balancer)
        self._pair.wait_for_holder(load_balancer)
        self._for_each(is_strict, self._single.release,
                       self._read(compat_amphora.SINGLE))

    def _give_to_single(self, is_strict):
        """Take the VIP from the pair.

        Its holder repeats its announcement every few seconds, and neighbours
        would turn back to it right before it stops. So it is hushed first.
        """
        giving = self._read(compat_amphora.ACTIVE_STANDBY)
        self._for_each(is_strict, functools.partial(
            self._pair.start, change=pair.hush), giving,
            self._part(giving)[0])
        load_balancer = self._read(compat_amphora.SINGLE)
        for each in load_balancer.amphorae:
            self._single.take(load_balancer, each, functools.partial(
                self._stop_pair, is_strict, giving, load_balancer))

    def _stop_pair(self, is_strict, giving, load_balancer):
        """Stop keepalived; the standby first, or it would take the VIP."""
        holders, others = self._part(giving)
        self._for_each(is_strict, self._stop, giving, others)
        # A neighbour may have missed the first one.
        self._single.announce(load_balancer)
        self._for_each(is_strict, self._stop, giving, holders)

    def _part(self, load_balancer):
        """Return the amphorae that have the VIP, and the others."""
        holding = self._work.find_holders(load_balancer.amphorae,
                                          load_balancer.vip.ip_address)
        return [[each for each in load_balancer.amphorae
                 if bool(holding[each.id]) is holds]
                for holds in (True, False)]

    def _stop(self, _load_balancer, amphora):
        self._work.insist(self._work.agent_of(amphora).stop_keepalived)

    @staticmethod
    def _for_each(is_strict, function, load_balancer, amphorae=None):
        """Call a function for each amphora; unless strict, one may fail."""
        for each in load_balancer.amphorae if amphorae is None else amphorae:
            try:
                function(load_balancer, each)
            except work_.AGENT_ERRORS as e:
                # It is dead, or goes next.
                if is_strict:
                    raise
                LOG.debug('%s', e)


class Process(process.Process):
    """One change of topology, make before break."""

    @property
    def _to(self):
        return self._work.replacement.cause_value

    def _choose_topology(self):
        self._topology = Change(self._work)
        self._prover = prover.Prover(self._work, self._topology.get_holders,
                                     self._topology.get_new_ids)

    def _build(self, found):
        if self._to == compat_amphora.ACTIVE_STANDBY:
            compat_amphora.ensure_server_group(found)
        for role in compat_amphora.ROLES[self._to]:
            self._build_one(found, role)

    def _get_new_ids(self):
        return sorted({*super()._get_new_ids(), *self._find(self._to)})

    def _get_old_ids(self):
        return self._find(_OTHER[self._to])

    def _find(self, topology):
        return [each.id for each in self._get_model().amphorae
                if each.role in compat_amphora.ROLES[topology]]

    def _enter_delete_old(self):
        self._work.enter(phases.Phase.DELETE_OLD, topology=self._to)

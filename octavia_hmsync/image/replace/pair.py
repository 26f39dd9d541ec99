# SPDX-License-Identifier: Apache-2.0

"""Replaces an amphora of an ACTIVE_STANDBY load balancer.

Meanwhile three amphorae are peers, so that at least two serve at any time. The
holder of the VIP is replaced last. Before it goes, another amphora takes the
VIP from it, so that clients need not wait for its silence: Octavia renders
``nopreempt`` and a priority for each role, with which the other amphora waits
for seconds before it takes over.
"""

import re
import time

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import own_list
from octavia_hmsync.image.replace import work as work_

# Seconds. By default the holder advertises each second, and a standby takes
# over when three advertisements are missing.
_SWITCH_TIMEOUT = 20
# With these, haproxy keeps in memory which client goes where.
_PERSISTENCE_IN_TABLES = ('SOURCE_IP', 'APP_COOKIE')

# The highest priority for a router that does not own the address (RFC 5798,
# 5.2.4), and so the shortest wait when the holder gives up the VIP.
PREFERRED_PRIORITY = 254
_NO_PREEMPT = re.compile(r'^[ \t]*nopreempt[ \t]*\n', re.MULTILINE)
_PRIORITY = re.compile(r'^([ \t]*priority[ \t]+)\d+[ \t]*$', re.MULTILINE)
_REFRESH = re.compile(r'^([ \t]*garp_master_refresh[ \t]+)\d+[ \t]*$',
                      re.MULTILINE)


def prefer(configuration):
    """Return a configuration with which an amphora takes a held VIP.

    It takes the VIP after three advertisements of the holder, which then
    leaves.

    :raises UnknownTemplate: if Octavia renders something else.
    """
    return _replace(_PRIORITY, rf'\g<1>{PREFERRED_PRIORITY}',
                    _replace(_NO_PREEMPT, '', configuration))


def hush(configuration):
    """Return a configuration with which the holder announces the VIP once.

    Octavia's has it repeat that every few seconds, by IPv4 and IPv6.

    :raises UnknownTemplate: if Octavia renders something else.
    """
    return _replace(_REFRESH, r'\g<1>0', configuration)


def _replace(pattern, replacement, configuration):
    text, times = pattern.subn(replacement, configuration)
    # Not "priority 100" of a virtual rule, which is within a line.
    if times != 1:
        raise exceptions.UnknownTemplate(
            'The keepalived configuration of this Octavia is not the one '
            'that octavia-hmsync knows: report it, and meanwhile replace '
            'amphorae with --mode failover.')
    return text


class Pair:
    """Configures amphorae of ACTIVE_STANDBY load balancers."""

    def __init__(self, work):
        self._work = work
        # Neutron's data of each amphora, by its id, since Neutron may be down
        # when an amphora has to go. They do not change under the lock.
        self._plugged = {}

    @staticmethod
    def get_holders(old_id, new_id, is_switched):
        """Return the ids of possible holders of the VIP; empty for any."""
        return frozenset()

    def configure(self, old, new):
        """Configure the new amphora as a standby.

        :raises SecretsUnavailable: if not all certificates can be fetched; no
                                    amphora was changed.
        :raises AgentUnreachable, AgentRefused: if one of them fails.
        :raises UnknownTemplate: if Octavia renders something unknown.
        """
        load_balancer = self._work.get_load_balancer()
        listeners = self._work.get_listeners(load_balancer)
        models = {each.id: each for each in load_balancer.amphorae}
        # Checked before anything is changed.
        prefer(self.render(load_balancer, models[new.id]))
        own_list.give_of_zone(self._work, new)
        self.set_interface(models[new.id])
        listeners.update(load_balancer, models[new.id])
        self._update_others(listeners, load_balancer, old, new)
        for each in load_balancer.amphorae:
            self._upload(load_balancer, each)
        for each in load_balancer.amphorae:
            if each.id != new.id:
                self._work.insist(
                    self._work.agent_of(each).reload_keepalived)
        self._work.insist(self._work.agent_of(new).start_keepalived)

    def set_interface(self, new):
        """Record the interface that keepalived of a data model will use.

        :raises AgentUnreachable, AgentRefused: if it does not tell.
        """
        interface = self._work.insist(self._work.agent_of(new).get_interface,
                                      new.vrrp_ip)
        octavia_repo.set_interface(self._work.engine, new.id, interface)
        new.vrrp_interface = interface

    def start(self, load_balancer, amphora, change=None):
        """Let an amphora take part in the choice of the VIP's holder.

        A keepalived that runs is reloaded, and its holder announces the VIP.

        :param change: hush, or None.
        :raises AgentUnreachable, AgentRefused: if it fails.
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        self._upload(load_balancer, amphora, change)
        self._work.insist(self._work.agent_of(amphora).start_keepalived)

    def wait_for_holder(self, load_balancer):
        """Wait until one amphora of a data model has the VIP alone.

        Without a listener none takes it; see proof.

        :raises NotProven: if none has, or several have, for too long.
        """
        if not load_balancer.listeners:
            return
        vip = load_balancer.vip.ip_address
        deadline = time.monotonic() + _SWITCH_TIMEOUT
        while list(self._work.find_holders(
                load_balancer.amphorae, vip).values()).count(True) != 1:
            if time.monotonic() > deadline:
                raise exceptions.NotProven(
                    f'keepalived of the amphorae of load balancer '
                    f'{load_balancer.id} does not choose one for the VIP '
                    f'{vip} within {_SWITCH_TIMEOUT} s: see whether the '
                    f'security group of the VIP lets VRRP through.')
            self._work.pause()

    def switch(self, old, new):
        """Let another amphora take the VIP, if the old one has it.

        :raises AgentUnreachable, AgentRefused: if one of them fails.
        :raises NotProven: if no amphora takes it.
        """
        load_balancer = self._work.get_load_balancer()
        vip = load_balancer.vip.ip_address
        if old is None or not self._work.insist(
                self._work.agent_of(old).holds, vip):
            return
        others = [each for each in load_balancer.amphorae
                  if each.id not in (old.id, new.id)]
        # An older one has proven itself for longer.
        self._prefer(load_balancer, others[0] if others else
                     _find(load_balancer, new.id))

    def back(self, old, new):
        """Let the old amphora take the VIP, if the new one has it.

        :raises AgentUnreachable, AgentRefused: if the old one fails.
        :raises NotProven: if it does not take the VIP.
        :raises CloudUnavailable: if Neutron does not tell what it needs.
        """
        load_balancer = self._work.get_load_balancer()
        vip = load_balancer.vip.ip_address
        holding = self._work.find_holders(load_balancer.amphorae, vip)
        if not holding.get(old.id) and new is not None and (
                holding.get(new.id) is not False):
            self._prefer(load_balancer, _find(load_balancer, old.id))

    def leave(self, amphora):
        """Ensure that an amphora to be deleted never takes the VIP again.

        It stays a peer of the others until it is gone: an unknown amphora
        would take the VIP beside them.

        :raises AgentUnreachable, AgentRefused: if it may have failed.
        """
        self._work.agent_of(amphora).stop_keepalived()

    def settle(self, gone_id):
        """Configure the remaining amphorae as each other's only peers.

        :raises SecretsUnavailable: if not all certificates can be fetched; the
                                    listeners are unchanged then.
        :raises AgentUnreachable, AgentRefused: if one of them fails.
        :raises CloudUnavailable: if Neutron does not tell what one needs.
        """
        load_balancer = self._work.get_load_balancer(without=(gone_id,))
        vip = load_balancer.vip.ip_address
        holding = self._work.find_holders(load_balancer.amphorae, vip)
        error: exceptions.HMSyncException | None = None
        listeners = None
        try:
            listeners = self._work.get_listeners(load_balancer)
        except exceptions.SecretsUnavailable as e:
            # keepalived must know at once that an amphora is gone; haproxy
            # learns it when the listeners change next.
            error = e
        for each in load_balancer.amphorae:
            try:
                self._upload(load_balancer, each)
                self._work.insist(
                    self._work.agent_of(each).reload_keepalived)
                # For the reason in _update_others().
                if listeners is not None and (
                        holding[each.id] is False or
                        _has_tables(load_balancer)):
                    listeners.update(load_balancer, each)
            except (*work_.AGENT_ERRORS, exceptions.CloudUnavailable) as e:
                # The others must know all the same.
                error = e
        if error is not None:
            raise error

    def _update_others(self, listeners, load_balancer, old, new):
        """Configure the other amphorae's peers for haproxy's tables.

        A reload of haproxy closes connections that clients keep. So the
        holder of the VIP is left alone if it has no tables to share. Any other
        amphora has no connections yet, and gets the peers it will have when
        the old one is gone.
        """
        has_tables = _has_tables(load_balancer)
        gone = () if old is None else (old.id,)
        later = (load_balancer if has_tables
                 else self._work.get_load_balancer(without=gone))
        holding = self._work.find_holders(load_balancer.amphorae,
                                          load_balancer.vip.ip_address)
        for each in later.amphorae:
            if each.id != new.id and (has_tables or
                                      holding[each.id] is False):
                listeners.update(later, each)

    def render(self, load_balancer, amphora):
        """Render its keepalived configuration; Neutron is asked once.

        :raises CloudUnavailable: if Neutron does not answer.
        """
        if amphora.id not in self._plugged:
            self._plugged[amphora.id] = self._work.ask_network(
                amphora.id, compat_amphora.read_network_config,
                load_balancer, amphora, self._work.network)
        return compat_amphora.render_keepalived(load_balancer, amphora,
                                                self._plugged[amphora.id])

    def _upload(self, load_balancer, amphora, change=None):
        text = self.render(load_balancer, amphora)
        self._work.insist(self._work.agent_of(amphora).upload_keepalived,
                          change(text) if change else text)

    def _prefer(self, load_balancer, taker):
        """Let an amphora take the VIP now, then restore its configuration.

        Without a listener none takes it; see proof.

        :raises NotProven: if it does not become the only holder.
        """
        if not load_balancer.listeners:
            return
        taking = self._work.agent_of(taker)
        vip = load_balancer.vip.ip_address
        self._upload(load_balancer, taker, prefer)
        self._work.insist(taking.reload_keepalived)
        try:
            deadline = time.monotonic() + _SWITCH_TIMEOUT
            while time.monotonic() < deadline:
                holding = self._work.find_holders(load_balancer.amphorae, vip)
                if [key for key, holds in holding.items() if holds] == [
                        taker.id]:
                    return
                self._work.pause()
        finally:
            self._upload(load_balancer, taker)
            self._work.insist(taking.reload_keepalived)
        raise exceptions.NotProven(
            f'Amphora {taker.id} does not take the VIP {vip} within '
            f'{_SWITCH_TIMEOUT} s.')


def _find(load_balancer, amphora_id):
    return next(each for each in load_balancer.amphorae
                if each.id == amphora_id)


def _has_tables(load_balancer):
    """Tell whether haproxy keeps in memory which client goes where."""
    return any(pool.session_persistence is not None and
               pool.session_persistence.type in _PERSISTENCE_IN_TABLES
               for pool in load_balancer.pools)

# SPDX-License-Identifier: Apache-2.0

"""Deletes an amphora with its instance and ports.

Octavia's own flow ignores what cannot be deleted; this module reports it. All
steps may be repeated, as a dead housekeeper may have done some of them.
"""

from oslo_log import log as logging

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync import compute
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Failures that are followed by another try, for all ports of an amphora
# together, and for the instance of an amphora that does not answer. That is
# enough for a service that is down for 10 s, and wastes little time otherwise.
_TRIES = 10
# Seconds between them.
_PAUSE = 2
# Seconds, the longest pause between two tries while the amphora answers; from
# the pause _LATE on, it takes longer than any instance needs to end.
_LONGEST_PAUSE = 60
_LATE = 16


def remove(work, amphora, answers=lambda: False):
    """Delete an amphora.

    :param amphora: an Amphora of the evidence, or any object with its id,
                    compute_id and vrrp_port_id.
    :param answers: called without arguments, before and after each try to
                    delete its instance; returns whether its agent answers.
                    While it does, the tries go on: an amphora that runs must
                    not be forgotten.
    :returns: what could not be deleted, in words; empty if all is gone.
    :raises Lost, Stopped: as Work.check().
    """
    octavia_repo.set_going(work.engine, amphora.id)
    left = (_remove_instances(work, amphora, answers) +
            _remove_ports(work, amphora))
    # Like Octavia's flow: the row is of no use any more.
    octavia_repo.set_gone(work.engine, amphora.id)
    for what in left:
        LOG.warning('%s of amphora %s, which is replaced, could not be '
                    'deleted: see "octavia-hmsync image leaks".',
                    what.capitalize(), amphora.id)
    return left


def _remove_instances(work, amphora, answers):
    """Delete instances, until the amphora does not answer any more."""
    answers()
    tries, pause, told = _Tries(work), _PAUSE, None
    while True:
        left = (tries.do_once(f'instance {amphora.compute_id}',
                              work.compute.delete, amphora.compute_id)
                if amphora.compute_id else
                tries.do_once(f'instance amphora-{amphora.id}',
                              _remove_instances_named, work, amphora.id))
        if not answers():
            if left and tries.go_on():
                continue
            return left
        if left != told and (left or pause >= _LATE):
            told = left
            work.note(_describe_living(amphora, left))
        work.pause(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _describe_living(amphora, left):
    problem = (f'its {" and ".join(left)} cannot be deleted' if left else
               'the compute service has taken the order to delete it')
    return (f'Amphora {amphora.id} still answers, though {problem}. It could '
            f'take the VIP again, so the load balancer stays locked until it '
            f'is gone: see the compute service.')


def _find_instances(work, amphora_id):
    """Return the ids of instances that have no row.

    They are found by the amphora's name, if the compute driver knows names.

    :raises CloudUnavailable, CloudRefused: if the service does not tell.
    """
    return [each.id for each in compute.connect(work.conf).list_instances(
        amphora_id) or ()]


def _remove_instances_named(work, amphora_id):
    for compute_id in _find_instances(work, amphora_id):
        work.compute.delete(compute_id)


def _remove_ports(work, amphora):
    tries, left = _Tries(work), []
    for port_id in compat_amphora.get_member_ports(amphora.id):
        problem = tries.do(f'port {port_id}', work.network.delete_port,
                           port_id)
        left += problem
        if not problem:
            compat_amphora.forget_member_port(port_id)
    if amphora.vrrp_port_id:
        left += tries.do(f'port {amphora.vrrp_port_id}',
                         work.network.delete_port, amphora.vrrp_port_id)
    # Ports that were made by a process that died before it recorded them.
    for name in (f'{compat_amphora.VRRP_PORT_PREFIX}{amphora.id}',
                 f'{compat_amphora.MEMBER_PORT_PREFIX}{amphora.id}'):
        left += tries.do(f'port {name}', _remove_ports_named, work, name)
    return left


def _remove_ports_named(work, name):
    # There may be one in each network; the driver returns only the first.
    while True:
        try:
            port = work.network.get_port_by_name(name)
        except compat_amphora.PortNotFound:
            # That is the usual case.
            return
        work.network.delete_port(port.id)


class _Tries:
    """Deletes things; repeats that unless too many tries have failed."""

    def __init__(self, work):
        self._work = work
        self._left = _TRIES

    def do(self, what, function, *arguments):
        """Return what could not be deleted, as a list."""
        while True:
            left = self.do_once(what, function, *arguments)
            if not left or not self.go_on():
                return left

    def do_once(self, what, function, *arguments):
        """Do the same as do(), with only one try."""
        try:
            function(*arguments)
        except exceptions.Interrupted:
            raise
        except Exception as e:  # A driver may raise anything.
            LOG.debug('%s: %s', what, e)
            return [what]
        return []

    def go_on(self):
        """Wait for the next try; return False if there is none."""
        self._left -= 1
        if self._left > 0:
            self._work.pause(_PAUSE)
        return self._left > 0

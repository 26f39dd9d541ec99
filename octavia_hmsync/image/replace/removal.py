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
"""Deletes an amphora with its instance and ports.

Octavia's own flow passes over what could not be deleted. Here it is said; and
all of it may be done again, since whoever did it may have died with it.
"""

from oslo_log import log as logging
import tenacity

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.db.repositories import image_lock as lock_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image import compute

LOG = logging.getLogger(__name__)

_TRIES = 4
_PAUSE = 2


def remove(work, amphora):
    """Delete an amphora.

    :param work: a Work.
    :param amphora: an Amphora of the evidence, or anything else that has its
                    id, compute_id and vrrp_port_id.
    :returns: what could not be deleted, in words; empty if all is gone.
    :raises Lost, Stopped: as Work.check().
    """
    lock_repo.set_going(work.engine, amphora.id)
    left = []
    for compute_id in [amphora.compute_id] if amphora.compute_id else (
            _find_instances(work, amphora.id)):
        left += _try(work, f'instance {compute_id}', work.compute.delete,
                     compute_id)
    for port_id in compat_amphora.get_member_ports(amphora.id):
        problem = _try(work, f'port {port_id}', work.network.delete_port,
                       port_id)
        left += problem
        if not problem:
            compat_amphora.forget_member_port(port_id)
    if amphora.vrrp_port_id:
        left += _try(work, f'port {amphora.vrrp_port_id}',
                     work.network.delete_port, amphora.vrrp_port_id)
    left += _remove_unrecorded_ports(work, amphora)
    # As after Octavia's flow: nobody would look after it as it is.
    lock_repo.set_gone(work.engine, amphora.id)
    for what in left:
        LOG.warning('%s of amphora %s, which is replaced, could not be '
                    'deleted: see "octavia-hmsync image leaks".',
                    what.capitalize(), amphora.id)
    return left


def _find_instances(work, amphora_id):
    """Return instances whose ids whoever built them did not record.

    By the amphora's name; where nobody knows names, none is found.
    """
    try:
        return [each.id for each in compute.connect(work.conf).list_instances(
            amphora_id) or ()]
    except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
        LOG.warning('Whether amphora %s, which is replaced, has an instance '
                    'is not known: %s', amphora_id, e)
        return []


def _remove_unrecorded_ports(work, amphora):
    """Delete ports whose ids whoever made them had no time to record."""
    left = []
    for name in (f'{compat_amphora.VRRP_PORT_PREFIX}{amphora.id}',
                 f'{compat_amphora.MEMBER_PORT_PREFIX}{amphora.id}'):
        # There may be one in each network, and the driver tells of the first.
        problem: list[str] = []
        while not problem and (port_id := _find_port(work, name)):
            problem = _try(work, f'port {port_id}', work.network.delete_port,
                           port_id)
        left += problem
    return left


def _find_port(work, name):
    try:
        return work.network.get_port_by_name(name).id
    except Exception as e:
        # Of a driver: there is none, which is the rule.
        LOG.debug('No port %s: %s', name, e)
        return None


def _try(work, what, function, argument):
    """Return what could not be deleted: nothing, or one."""
    try:
        tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_TRIES), sleep=work.pause,
            wait=tenacity.wait_fixed(_PAUSE), reraise=True,
            retry=tenacity.retry_if_not_exception_type(
                exceptions.Interrupted))(function, argument)
    except exceptions.Interrupted:
        raise
    except Exception as e:  # A driver may raise anything.
        LOG.debug('%s: %s', what, e)
        return [what]
    return []

# SPDX-License-Identifier: Apache-2.0

"""Boots distributors where they are needed, and deletes them again.

Several housekeepers may do so at once: the row of a new instance and the
claim of an existing one settle which of them works on it.
"""

from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.distribution.ovs import distributors as ovs
from octavia_hmsync.cluster.distribution.ovs import vips
from octavia_hmsync.cluster.instances import cloud as instance_cloud
from octavia_hmsync.cluster.instances import flow as instance_flow
from octavia_hmsync.cluster.instances import instances
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import crew
from octavia_hmsync.db import api
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Instances that are worked on at once.
AT_ONCE = 4
# Seconds before the next boot after one failed, at first and at most.
_FIRST_PAUSE = 15
_LAST_PAUSE = 600
# Which pause that is.
_BOOT = 'boot'
# Of an instance as the compute service has it.
_GONE = (None, 'ERROR', 'DELETED', 'SOFT_DELETED')


class InstanceKeeper:
    """Works on the instances of a Site that need it, a thread for each."""

    def __init__(self, site: instance_flow.Site):
        self._site = site
        self._crew: crew.Crew[str] = crew.Crew('hmsync-distributor')
        self._pauses: crew.Pauses[str] = crew.Pauses(
            _FIRST_PAUSE, _LAST_PAUSE, site.clock)

    def run_once(self):
        """Begin the work that is due; raise DBError."""
        if self._site.claims.stopping.is_set():
            return
        options = self._site.conf[cluster_conf.GROUP]
        if not (options.distributor_instances or
                booted_repo.get_all(self._site.engine)):
            return
        found, rows = self._read()
        if self._look_for_gone(found, rows):
            found, rows = self._read()
        known = [one.id for one in found]
        for action in instances.decide(
                found, rows, options.distributor_instances,
                options.distributor_instance_vips):
            if action.kind == instances.Kind.LEAVE:
                self._leave(action, found)
            elif action.kind == instances.Kind.BUILD:
                known += self._build(known)
            else:
                self._take_up(action)

    def _read(self):
        return (booted_repo.get_all(self._site.engine), {
            row.name: row
            for row in distributor_repo.get_all(self._site.engine)
            if row.driver == vips.DRIVER})

    def _look_for_gone(self, found, rows):
        """Mark distributors that do not answer and have no instance any more.

        :returns: whether there are any.
        """
        is_any = False
        for one in instances.find_silent(found, rows):
            try:
                status = self._site.cloud.get_status(one.compute_id)
            except (exceptions.CloudUnavailable,
                    exceptions.CloudRefused) as e:
                LOG.info('The status of the instance of the distributor '
                         '%s is unknown: %s', one.compute_id, e)
                continue
            if status in _GONE:
                is_any |= booted_repo.order(
                    self._site.engine, one.id,
                    f'its instance is {status or "gone"}')
        return is_any

    def _leave(self, action, found):
        if booted_repo.leave(
                self._site.engine, action.instance_id, action.reason,
                [one.id for one in found
                 if one.state == booted_repo.READY]):
            LOG.info('The distributor in the instance %s %s: %s.',
                     action.instance_id, action.kind.value, action.reason)

    def _build(self, known):
        """Begin to boot one; return a list of its id, if one is booted."""
        if (not self._pauses.is_over(_BOOT) or
                len(self._crew.keys()) >= AT_ONCE):
            return []
        instance_cloud.read_options(self._site.conf)
        claims = self._site.claims
        owner = claims.make_owner()
        instance_id = uuidutils.generate_uuid()
        if not booted_repo.reserve(
                self._site.engine, instance_id, known, owner, claims.expiry):
            return []
        LOG.info('A distributor is booted: %s.', instance_id)
        self._begin(self._run_build, claims.hold(instance_id, owner))
        return [instance_id]

    def _take_up(self, action):
        running = self._crew.keys()
        if action.instance_id in running or len(running) >= AT_ONCE:
            return
        held = self._site.claims.claim(action.instance_id)
        if held is not None:
            self._begin(self._run_take_back, held, action.reason)

    def _begin(self, target, held, *args):
        self._crew.begin(held.key, self._run, target, held, *args)

    def _run(self, target, held, *args):
        instance_id = held.key
        try:
            target(held, *args)
        except exceptions.Lost:
            LOG.info('Another housekeeper works on the distributor %s.',
                     instance_id)
        except exceptions.Stopped:
            LOG.info('The distributor %s was taken back, because this '
                     'process ends.', instance_id)
        except Exception as e:
            if api.is_database_error(e):
                LOG.warning('The distributor %s is taken up again later: %s',
                            instance_id, api.explain(e))
            elif isinstance(e, exceptions.HMSyncException):
                LOG.warning('The distributor %s could not be booted, or not '
                            'be deleted: %s', instance_id, e)
            else:
                LOG.exception('The distributor %s could not be booted, or '
                              'not be deleted:', instance_id)
        finally:
            held.release()

    def _run_build(self, held):
        is_ready = False
        try:
            instance_flow.boot(self._site, held)
            is_ready = True
            LOG.info('The distributor %s is ready.', held.key)
        finally:
            self._pauses.note(_BOOT, is_ready)

    def _run_take_back(self, held, reason):
        if instance_flow.take_back(self._site, held, reason):
            LOG.info('The instance of the distributor %s is deleted.',
                     held.key)

    def begin_to_stop(self):
        """Begin nothing new, and take back running boots."""
        self._site.claims.stopping.set()

    def stop(self, timeout):
        """Take back running boots, and wait so many seconds for that."""
        self.begin_to_stop()
        self._crew.join(timeout)
        self._site.claims.end()


def make(conf, engine):
    return InstanceKeeper(instance_flow.Site(
        conf, engine, instance_cloud.InstanceCloud(conf),
        lambda url: ovs.make_client(conf, url),
        instance_flow.make_claims(engine, conf.host)))

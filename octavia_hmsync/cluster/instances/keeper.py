# SPDX-License-Identifier: Apache-2.0

"""Boots distributors where they are needed, and deletes them again.

Several housekeepers may do so at once: the row of a new instance and the
claim of an existing one settle which of them works on it.
"""

import threading
import time

from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.distribution import distributors as distributors_
from octavia_hmsync.cluster.distribution import vips
from octavia_hmsync.cluster.instances import cloud as instance_cloud
from octavia_hmsync.cluster.instances import flow as instance_flow
from octavia_hmsync.cluster.instances import instances
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Instances that are worked on at once.
AT_ONCE = 4
# Seconds before the next boot after one failed, at first and at most.
_FIRST_PAUSE = 15
_LAST_PAUSE = 600
# Status of an instance, as the compute service reports it.
_GONE = (None, 'ERROR', 'DELETED', 'SOFT_DELETED')


class InstanceKeeper:
    """Works on instances that need it, in a thread for each.

    :param site: an instance_flow.Site.
    :param host: the name of this controller.
    """

    def __init__(self, site, host):
        self._site = site
        self._host = host
        self._lock = threading.Lock()
        self._running = {}
        # When the next one may be booted, and the pause after it.
        self._not_before = site.clock()
        self._pause = _FIRST_PAUSE

    def run_once(self):
        """Begin the work that is due.

        :raises DBError: if the database cannot be used.
        """
        if self._site.stopping.is_set():
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

    def _make_owner(self):
        return f'{self._host}/{uuidutils.generate_uuid()}'

    def _build(self, known):
        """Begin to boot one.

        :returns: a list of its id, if one is booted.
        """
        with self._lock:
            if (self._site.clock() < self._not_before or
                    len(self._running) >= AT_ONCE):
                return []
        instance_cloud.read_options(self._site.conf)
        owner = self._make_owner()
        instance_id = uuidutils.generate_uuid()
        if not booted_repo.reserve(
                self._site.engine, instance_id, known, owner,
                instance_flow.CLAIM_EXPIRY):
            return []
        LOG.info('A distributor is booted: %s.', instance_id)
        self._begin(instance_id, self._run_build, owner)
        return [instance_id]

    def _take_up(self, action):
        with self._lock:
            if (action.instance_id in self._running or
                    len(self._running) >= AT_ONCE):
                return
        owner = self._make_owner()
        if booted_repo.claim(self._site.engine, action.instance_id, owner,
                             instance_flow.CLAIM_EXPIRY):
            self._begin(action.instance_id, self._run_take_back, owner,
                        action.reason)

    def _begin(self, instance_id, target, *args):
        thread = threading.Thread(
            target=self._run, args=(instance_id, target, *args), daemon=True,
            name=f'hmsync-distributor-{instance_id}')
        with self._lock:
            self._running[instance_id] = thread
        thread.start()

    def _run(self, instance_id, target, *args):
        periodic.leave_signals_to_main_thread()
        try:
            target(instance_id, *args)
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
            with self._lock:
                del self._running[instance_id]

    def _run_build(self, instance_id, owner):
        is_ready = False
        try:
            instance_flow.boot(self._site, instance_id, owner)
            is_ready = True
            LOG.info('The distributor %s is ready.', instance_id)
        finally:
            self._note(is_ready)

    def _note(self, is_ready):
        with self._lock:
            if is_ready:
                self._pause = _FIRST_PAUSE
            else:
                self._not_before = self._site.clock() + self._pause
                self._pause = min(2 * self._pause, _LAST_PAUSE)

    def _run_take_back(self, instance_id, owner, reason):
        try:
            if instance_flow.take_back(self._site, instance_id, owner,
                                       reason):
                LOG.info('The instance of the distributor %s is deleted.',
                         instance_id)
        finally:
            booted_repo.release(self._site.engine, instance_id, owner)

    def begin_to_stop(self):
        """Begin nothing new, and take back running boots."""
        self._site.stopping.set()

    def stop(self, timeout):
        """Begin nothing new, take back running boots, and wait.

        :param timeout: seconds; then another housekeeper takes them back.
        """
        self.begin_to_stop()
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))


def make(conf, engine):
    """Make an InstanceKeeper."""
    return InstanceKeeper(instance_flow.Site(
        conf, engine, instance_cloud.InstanceCloud(conf),
        lambda url: distributors_.make_client(conf, url),
        threading.Event()), conf.host)

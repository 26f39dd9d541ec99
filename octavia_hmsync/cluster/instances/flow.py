# SPDX-License-Identifier: Apache-2.0

"""The flow that boots a distributor, and what takes one back.

The caller must have claimed the row. A boot that failed is taken back as a
whole: by the same process or, if that died, by the next claim owner.
"""

import dataclasses
import threading
import time
import typing

from oslo_config import cfg
from oslo_log import log as logging
import sqlalchemy as sa
from taskflow import engines
from taskflow.patterns import linear_flow
from taskflow import task

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.instances import data as instance_data
from octavia_hmsync.cluster.instances import instances as rules
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds after which a claim that is not renewed lapses.
CLAIM_EXPIRY = 180
# Seconds between two looks at an instance that boots.
INTERVAL = 3
_FAULTS = (None, 'ERROR', 'DELETED', 'SOFT_DELETED', 'SHUTOFF')


@dataclasses.dataclass(frozen=True)
class Site:
    """Where distributors are booted.

    :param cloud: an instance_cloud.InstanceCloud.
    :param client_of: returns the client for the URL of a distributor.
    :param stopping: set when this process ends.
    :param interval: seconds between two looks at an instance that boots.
    :param clock: returns seconds.
    """

    conf: cfg.ConfigOpts
    engine: sa.Engine
    cloud: typing.Any
    client_of: typing.Callable[[str], typing.Any]
    stopping: threading.Event
    interval: float = INTERVAL
    clock: typing.Callable[[], float] = time.monotonic

    def record(self, instance_id, owner, **values):
        """Renew the claim, and record values in the row.

        :raises Lost: if another process has claimed the row.
        :raises Stopped: if this process ends.
        """
        booted_repo.record(self.engine, instance_id, owner, CLAIM_EXPIRY,
                           **values)
        if self.stopping.is_set():
            raise exceptions.Stopped


class _Task(task.Task):

    def __init__(self, site, **kwargs):
        super().__init__(**kwargs)
        self._site = site


class TakeBackOnRevert(_Task):
    """Deletes all that a failed flow has made."""

    def execute(self):
        """Do nothing: the caller of the flow has made the row."""

    def revert(self, instance_id, owner, flow_failures, *args, **kwargs):
        reason = '; '.join(_describe(each.exception)
                           for each in flow_failures.values())
        try:
            take_back(self._site, instance_id, owner, reason)
        except exceptions.Lost:
            LOG.info('Another process takes the distributor %s back.',
                     instance_id)
        except Exception as e:
            if not (isinstance(e, exceptions.HMSyncException) or
                    api.is_database_error(e)):
                raise
            LOG.info('The distributor %s is taken back later: %s',
                     instance_id, _describe(e))


class Plug(_Task):
    """Creates the port in the management network."""

    default_provides = ('port_id', 'address')

    def execute(self, instance_id, owner):
        port_id, address = self._site.cloud.plug(instance_id)
        self._site.record(instance_id, owner, address=address)
        return port_id, address


class Boot(_Task):
    """Boots the instance.

    Its private key must not get into the store or the log of the flow.
    """

    default_provides = 'compute_id'

    def execute(self, instance_id, owner, port_id, address):
        site = self._site
        user_data, expires_at = instance_data.make(site.conf, address)
        site.record(instance_id, owner, is_booted=True,
                    expires_at=expires_at)
        compute_id = site.cloud.boot(instance_id, port_id, user_data)
        try:
            site.record(instance_id, owner, compute_id=compute_id)
        except exceptions.Lost:
            # The new claim owner may have looked before it was there.
            site.cloud.delete(compute_id)
            raise
        return compute_id


class WaitUntilItAnswers(_Task):
    """Waits until the distributor answers over mutual TLS."""

    def execute(self, instance_id, owner, compute_id, address):
        site = self._site
        url = cluster_conf.make_url(address)
        seconds = site.conf[cluster_conf.GROUP].distributor_boot_timeout
        deadline = site.clock() + seconds
        while True:
            problem = _ask(site, url)
            if problem is None:
                return
            status = _look(site, compute_id)
            if status in _FAULTS:
                raise exceptions.BuildFailed(
                    f'its instance {compute_id} is '
                    f'{status or "gone"} before it ever answered')
            if site.clock() >= deadline:
                raise exceptions.BuildFailed(
                    f'it does not answer within [{cluster_conf.GROUP}] '
                    f'distributor_boot_timeout = {seconds} s, its instance '
                    f'{compute_id} is {status}: {problem}')
            site.stopping.wait(site.interval)
            site.record(instance_id, owner)


class Register(_Task):
    """Makes it READY: it gets clusters from now on."""

    def execute(self, instance_id, owner):
        self._site.record(instance_id, owner, is_booted=True,
                          state=booted_repo.READY)


def _ask(site, url):
    """Return why a distributor cannot be used yet, None if it can."""
    try:
        status = site.client_of(url).get_status()['status']
    except exceptions.DistributorError as e:
        return str(e)
    if status != distributor_repo.ONLINE:
        return f'the distributor {url} is {status}'
    return None


def _look(site, compute_id):
    """Return the state of an instance, or words if it is not known."""
    try:
        return site.cloud.get_status(compute_id)
    except (exceptions.CloudUnavailable, exceptions.CloudRefused) as e:
        LOG.info('A distributor boots, and its state is not known: %s', e)
        return 'in an unknown state'


def _describe(error):
    if error is None:
        return 'it failed'
    return ' '.join(str(error).split()).rstrip('.') or type(error).__name__


def make(site):
    """Return the flow; it takes instance_id and owner."""
    return linear_flow.Flow('hmsync-boot-distributor').add(
        TakeBackOnRevert(site), Plug(site), Boot(site),
        WaitUntilItAnswers(site), Register(site))


def boot(site, instance_id, owner):
    """Boot a distributor whose row is claimed.

    :raises Exception: of a task, after everything was taken back.
    """
    try:
        engines.load(make(site), store={
            'instance_id': instance_id, 'owner': owner}).run()
    finally:
        booted_repo.release(site.engine, instance_id, owner)


def take_back(site, instance_id, owner, reason):
    """Delete everything that belongs to an instance, and then its row.

    :param owner: of the claim of the row.
    :param reason: for the row, as long as that stays.
    :returns: False if something is still there or may yet appear: the caller
              must retry.
    :raises Lost: if another process has claimed the row.
    :raises CloudUnavailable, CloudRefused: if a service does not do its part.
    """
    # Not Site.record(): this is done even while this process ends.
    booted_repo.record(site.engine, instance_id, owner, CLAIM_EXPIRY,
                       state=booted_repo.LEAVING, reason=reason)
    row = booted_repo.get(site.engine, instance_id)
    if row is None:
        raise exceptions.Lost
    there = False
    for compute_id in site.cloud.find(instance_id, row.compute_id):
        if site.cloud.get_status(compute_id) is not None:
            there = True
            site.cloud.delete(compute_id)
    site.cloud.unplug(instance_id)
    if there or (row.compute_id is None and row.now - (
            row.booted_at or row.created_at) < rules.LATE):
        return False
    return booted_repo.forget(site.engine, instance_id, owner)

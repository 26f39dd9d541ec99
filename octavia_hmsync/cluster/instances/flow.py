# SPDX-License-Identifier: Apache-2.0

"""The flow that boots a distributor, and what takes one back.

The caller must have claimed the row. A boot that failed is taken back as a
whole: by the same process or, if that died, by the next claim owner.
"""

import dataclasses
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
from octavia_hmsync import held as held_

LOG = logging.getLogger(__name__)

# Seconds after which a claim that is not renewed lapses.
_CLAIM_EXPIRY = 60
# Seconds within which an instance boots and its distributor answers: after
# them it is deleted, and another one booted.
_BOOT_TIMEOUT = 600
# Seconds between two looks at an instance that boots.
INTERVAL = 3
_FAULTS = (None, 'ERROR', 'DELETED', 'SOFT_DELETED', 'SHUTOFF')


@dataclasses.dataclass(frozen=True)
class Site:
    """Where distributors are booted.

    :param cloud: an instance_cloud.InstanceCloud.
    :param client_of: returns the client for the URL of a distributor.
    :param interval: seconds between two looks at an instance that boots.
    """

    conf: cfg.ConfigOpts
    engine: sa.Engine
    cloud: typing.Any
    client_of: typing.Callable[[str], typing.Any]
    claims: held_.Claims
    interval: float = INTERVAL
    clock: typing.Callable[[], float] = time.monotonic

    def record(self, held, **values):
        """Renew a claim, and record values; raise Lost if it is another's."""
        held.require(booted_repo.record(
            self.engine, held.key, held.owner, self.claims.expiry, **values))


def make_claims(engine, host):
    """Return the claims of this process on instances."""
    return held_.Claims(engine, booted_repo, host, _CLAIM_EXPIRY)


class _Task(task.Task):

    def __init__(self, site, held):
        super().__init__()
        self._site = site
        self._held = held

    def _record(self, **values):
        self._site.record(self._held, **values)
        self._held.check()


class TakeBackOnRevert(_Task):
    """Deletes all that a failed flow has made."""

    def execute(self):
        """Do nothing: the caller of the flow has made the row."""

    def revert(self, flow_failures, *args, **kwargs):
        reason = '; '.join(_describe(each.exception)
                           for each in flow_failures.values())
        try:
            take_back(self._site, self._held, reason)
        except exceptions.Lost:
            LOG.info('Another process takes the distributor %s back.',
                     self._held.key)
        except Exception as e:
            if not (isinstance(e, exceptions.HMSyncException) or
                    api.is_database_error(e)):
                raise
            LOG.info('The distributor %s is taken back later: %s',
                     self._held.key, _describe(e))


class Plug(_Task):
    """Creates the port in the management network."""

    default_provides = ('port_id', 'address')

    def execute(self):
        port_id, address = self._site.cloud.plug(self._held.key)
        self._record(address=address)
        return port_id, address


class Boot(_Task):
    """Boots the instance.

    Its private key must not get into the store or the log of the flow.
    """

    default_provides = 'compute_id'

    def execute(self, port_id, address):
        site = self._site
        user_data, expires_at = instance_data.make(site.conf, address)
        self._record(is_booted=True, expires_at=expires_at)
        compute_id = site.cloud.boot(self._held.key, port_id, user_data)
        try:
            self._record(compute_id=compute_id)
        except exceptions.Lost:
            # The new claim owner may have looked before it was there.
            site.cloud.delete(compute_id)
            raise
        return compute_id


class WaitUntilItAnswers(_Task):
    """Waits until the distributor answers over mutual TLS."""

    def execute(self, compute_id, address):
        site = self._site
        url = cluster_conf.make_url(address)
        deadline = site.clock() + _BOOT_TIMEOUT
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
                    f'it does not answer within {_BOOT_TIMEOUT} s, its '
                    f'instance {compute_id} is {status}: {problem}')
            self._held.pause(site.interval)


class Register(_Task):
    """Makes it READY: it gets clusters from now on."""

    def execute(self):
        self._record(is_booted=True, state=booted_repo.READY)


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


def make(site, held):
    """Return the flow that boots the instance of a claim."""
    return linear_flow.Flow('hmsync-boot-distributor').add(*(
        task_class(site, held) for task_class in (
            TakeBackOnRevert, Plug, Boot, WaitUntilItAnswers, Register)))


def boot(site, held):
    """Boot a distributor whose row is claimed.

    :raises Exception: of a task, after everything was taken back.
    """
    engines.load(make(site, held)).run()


def take_back(site, held, reason):
    """Delete everything that belongs to an instance, and then its row.

    :param reason: for the row, as long as that stays.
    :returns: False if something is still there or may yet appear: the caller
              must retry.
    :raises Lost: if another process has claimed the row.
    :raises CloudUnavailable, CloudRefused: if a service does not do its part.
    """
    instance_id = held.key
    # Without a check: this is done even while this process ends.
    site.record(held, state=booted_repo.LEAVING, reason=reason)
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
    return booted_repo.forget(site.engine, instance_id, held.owner)

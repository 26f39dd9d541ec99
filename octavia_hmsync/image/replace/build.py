# SPDX-License-Identifier: Apache-2.0

"""Builds the amphora that replaces another one, with Octavia's flow."""

from oslo_log import log as logging
from taskflow import engines
from taskflow import exceptions as taskflow_exc
from taskflow import states

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync import exceptions
from octavia_hmsync.image import phases
from octavia_hmsync import watched_flow

LOG = logging.getLogger(__name__)


class _Steps:
    """Records the new amphora's id before anything else of it is built."""

    def __init__(self, work):
        self._work = work

    def on_running(self, _state, details):
        """Called for each task that begins."""
        self._work.is_idle = details.get('task_name', '').endswith(
            compat_amphora.WAITING_TASKS)

    def check(self, task_name, result):
        """Called for each task that has ended, before the next begins."""
        self._work.is_idle = False
        if task_name.endswith(compat_amphora.CREATE_TASK):
            self._work.new_id = result
            self._work.enter(phases.Phase.BUILD,
                             new_amphora_id=self._work.new_id)
        else:
            self._work.check()


def build(work, load_balancer, role):
    """Build an amphora for a load balancer, and plug it in.

    Afterwards .new_id of the work is its id, even if that failed.

    :param work: a Work, in the phase BUILD.
    :param role: role of the amphora that it replaces.
    :raises BuildFailed: with the reason; its parts were deleted again, as far
                         as possible.
    :raises Lost, Stopped: as Work.check(); its parts are left.
    """
    flow, store = compat_amphora.make_build_flow(load_balancer, role)
    engine = engines.load(flow, store=store)
    steps = _Steps(work)
    engine.atom_notifier.register(states.RUNNING, steps.on_running)
    watch = watched_flow.Watch(engine, steps.check)
    try:
        engine.run()
    except Exception as e:
        # Any error of the services that the flow's tasks ask.
        LOG.debug('The flow failed: %s', e)
        raise exceptions.BuildFailed(
            f'The new amphora could not be built: {_describe(e)}.') from e
    finally:
        work.is_idle = False
    watch.finish()


def _describe(error):
    """Return in one line why a flow failed."""
    if isinstance(error, taskflow_exc.WrappedFailure):
        # Of several failures, the first.
        return next(iter(error)).exception_str.split('\n', maxsplit=1)[0]
    text = ' '.join(str(error).split()).rstrip('.')
    return f'{type(error).__name__}: {text[:300]}'

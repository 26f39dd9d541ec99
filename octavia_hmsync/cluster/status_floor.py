# SPDX-License-Identifier: Apache-2.0

"""Keeps a heartbeat from hiding the bad status of a cluster.

Octavia's listener sets the operating status of a load balancer from each
heartbeat of any of its amphorae, and offers plugins no say in it. SQLAlchemy
does: a listener of its sessions may change a statement before it is executed.
"""

from oslo_log import log as logging
import sqlalchemy as sa
from sqlalchemy import orm

from octavia_hmsync.cluster.db import shown_status
from octavia_hmsync import compat

LOG = logging.getLogger(__name__)

_TABLE = compat.LOAD_BALANCER.name
_COLUMN = 'operating_status'


class StatusFloor:
    """Caps the status of load balancers at the status of their clusters.

    It changes only the statement that sets the operating status of a load
    balancer with a cluster, after one SELECT. A value that is there already is
    not written again, so that ``updated_at`` stays.
    """

    def __init__(self):
        self._problem = None

    def register(self):
        """Listen to all sessions of this process and its children.

        Call it before the fork: children do not see what their parent does
        later.
        """
        if not sa.event.contains(orm.Session, 'do_orm_execute', self._change):
            sa.event.listen(orm.Session, 'do_orm_execute', self._change)

    def unregister(self):
        """Undo register(), in this process."""
        if sa.event.contains(orm.Session, 'do_orm_execute', self._change):
            sa.event.remove(orm.Session, 'do_orm_execute', self._change)

    def _change(self, state):
        if not state.is_update or _get_table(state.statement) != _TABLE:
            return
        try:
            changed = self._find(state)
            self._problem = None
        except Exception as e:
            # Octavia's own statement goes on as it is. If the database is the
            # cause, that one fails, too.
            self._report(e)
            return
        if changed is not None:
            state.statement = changed

    def _find(self, state):
        """Return the statement to execute instead, or None."""
        statement = state.statement
        status = _get_status(statement)
        if status is None:
            return None
        row = state.session.connection(
            bind_arguments=state.bind_arguments).execute(
                shown_status.select(statement.table,
                                    statement.whereclause)).first()
        if row is None:
            return None
        shown = shown_status.floor(status, row.cluster_status)
        if shown == status:
            return None
        if shown == row.operating_status:
            return statement.where(sa.false())
        return statement.values(**{_COLUMN: shown})

    def _report(self, error):
        problem = f'{type(error).__name__}: {" ".join(str(error).split())}'
        if problem != self._problem:
            LOG.warning('Load balancers may show a better operating status '
                        'than their clusters have: %s', problem)
        self._problem = problem


def _get_table(statement):
    return getattr(getattr(statement, 'table', None), 'name', None)


def _get_status(statement):
    """Return the operating status if nothing else is set, else None."""
    if statement.whereclause is None:
        return None
    which = statement.whereclause.compile().params
    values = {name: value for name, value in
              statement.compile().params.items()
              # Columns set at any change, such as updated_at, are None here.
              if name not in which and value is not None}
    return values[_COLUMN] if set(values) == {_COLUMN} else None

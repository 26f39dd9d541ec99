# SPDX-License-Identifier: Apache-2.0

"""How far the clocks of controllers and database nodes are apart."""

import time

from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import member as mem


def get_offset(engine):
    """Return the seconds by which this clock is ahead of the database's.

    At least so many; less than 0 if it is behind. The time that the answer
    takes does not count.
    """
    with engine.connect() as connection:
        before = timeutils.utcnow()
        now = connection.execute(sa.select(types.utcnow())).scalar()
        after = timeutils.utcnow()
    if before <= now <= after:
        return 0.0
    return ((before if now < before else after) - now).total_seconds()


def find_ahead(engine):
    """Find keepalives from the future of the database node that answers.

    The clock of the node that took them is ahead.

    :returns: {host: least seconds ahead}, of those above CLOCKS_APART.
    """
    began = time.monotonic()
    found = hm_repo.get_rows(engine)
    # A node that lags waits before it reads, and answers with its time from
    # before the wait.
    waited = time.monotonic() - began
    ahead = {row.host: (row.keepalive_at - row.now).total_seconds() - waited
             for row in found}
    return {host: seconds for host, seconds in ahead.items()
            if seconds > mem.CLOCKS_APART}


def age_future(engine, model, max_age):
    """Make keepalives from the future count as silence from now on.

    They are of services that ended before the database's clock went back, and
    would look alive when the clock gets there again.

    :param model: HealthManager or HouseKeeper.
    """
    rows.write(
        engine, sa.update(model)
        .where(model.keepalive_at > types.utcnow_plus(mem.CLOCKS_APART))
        .values(keepalive_at=types.utcnow_plus(-max_age)))

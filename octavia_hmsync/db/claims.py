# SPDX-License-Identifier: Apache-2.0

"""Who works on a row: one owner at a time, until the claim lapses.

A claim is two columns of the row that it is for: its owner, an id that no
other claim has, and when it expires, by the clock of the database. An owner
who finds the claim lost must write nothing more. ``octavia_hmsync.held`` holds
claims in a process.
"""

from collections.abc import Iterable
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync import exceptions

Bind = sa.Engine | sa.Connection


def is_free(table: sa.Table) -> Any:
    """Return the condition that a row of a table has no owner now."""
    return sa.or_(table.c.claim_expires_at.is_(None),
                  table.c.claim_expires_at <= types.utcnow())


class Claims:
    """The claims of one table.

    :param conditions: what must hold as long as a row is claimed.
    :param made: a column that is NULL until what the row is for is made; a
                 claim adds the row, and a release deletes it again. None if
                 there is a row anyway.
    """

    def __init__(self, table: sa.Table, key: Any, owner: Any,
                 *conditions: Any, made: Any = None) -> None:
        self._table = table
        self._key = key
        self._owner = owner
        self._conditions = conditions
        self._made = made
        self._expires_at = table.c.claim_expires_at

    def make(self, owner: str, expiry: int) -> dict[str, Any]:
        """Return the values of a claim; it lapses after expiry seconds."""
        return {self._owner.name: owner,
                self._expires_at.name: types.utcnow_plus(expiry)}

    @property
    def none(self) -> dict[str, Any]:
        """The values of a row that has no owner."""
        return {self._owner.name: None, self._expires_at.name: None}

    def is_free(self) -> Any:
        """Return the condition that a row has no owner."""
        return is_free(self._table)

    def is_of(self, key: str, owner: str) -> Any:
        """Return the condition that a row is that of a key and an owner."""
        return sa.and_(self._key == key, self._owner == owner,
                       *self._conditions)

    # In a transaction of the caller's, or of their own, as rows.change().

    def take(self, bind: Bind, key: str, owner: str, expiry: int,
             conditions: Iterable[Any] = (), **values: Any) -> bool:
        """Claim a row without another owner, and set values; else False."""
        return rows.change(
            bind, self._table, self._key == key,
            sa.or_(self.is_free(), self._owner == owner), *conditions,
            **self.make(owner, expiry), **values)

    def hold(self, bind: Bind, key: str, owner: str, expiry: int,
             **values: Any) -> bool:
        """Renew a claim, even a lapsed one; if False, stop all work."""
        return self.change(bind, key, owner,
                           claim_expires_at=types.utcnow_plus(expiry),
                           **values)

    def require(self, connection: sa.Connection, key: str, owner: str,
                expiry: int, **values: Any) -> None:
        """Renew a claim, as the first step of a transaction.

        This write keeps a second owner at another node of Galera from
        committing.

        :raises Lost: if it has another owner.
        """
        if not self.hold(connection, key, owner, expiry, **values):
            raise exceptions.Lost

    def change(self, bind: Bind, key: str, owner: str, **values: Any) -> bool:
        """Change a claimed row; False if it has another owner."""
        return rows.change(bind, self._table, self.is_of(key, owner),
                           **values)

    def delete(self, bind: Bind, key: str, owner: str,
               *conditions: Any) -> bool:
        """Delete a claimed row; False if it has another owner."""
        return rows.write(bind, sa.delete(self._table).where(
            self.is_of(key, owner), *conditions)) == 1

    # In a transaction of their own.

    @api.retry
    def claim(self, engine: sa.Engine, key: str, owner: str,
              expiry: int) -> bool:
        """Claim a row; False if it has another owner, or is gone."""
        with engine.begin() as connection:
            if self.take(connection, key, owner, expiry):
                return True
        if self._made is None:
            return False
        try:
            with engine.begin() as connection:
                connection.execute(sa.insert(self._table).values(
                    {self._key.name: key, **self.make(owner, expiry)}))
            return True
        except db_exc.DBDuplicateEntry:
            return False

    @api.retry
    def release(self, engine: sa.Engine, key: str, owner: str) -> bool:
        """Release a claim; False if it has another owner, or is gone."""
        with engine.begin() as connection:
            if self._made is not None and self.delete(
                    connection, key, owner, self._made.is_(None)):
                return True
            return self.change(connection, key, owner, **self.none)

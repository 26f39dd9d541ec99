# SPDX-License-Identifier: Apache-2.0

"""Who works on a row: one owner at a time, until the claim lapses.

A claim is two columns of the row that it is for: its owner, an id that no
other claim has, and when it expires, by the clock of the database. An owner
who finds the claim lost must write nothing more.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from octavia_hmsync.db import types


def is_free(table: sa.Table) -> Any:
    """Return the condition that a row of a table has no owner now."""
    return sa.or_(table.c.claim_expires_at.is_(None),
                  table.c.claim_expires_at <= types.utcnow())


class Claims:
    """The claims of one table.

    :param table: it.
    :param key: the column that a row is found by.
    :param owner: the column with the owner.
    """

    def __init__(self, table: sa.Table, key: Any, owner: Any) -> None:
        self._table = table
        self._key = key
        self._owner = owner
        self._expires_at = table.c.claim_expires_at

    def make(self, owner: str, expiry: int) -> dict[str, Any]:
        """Return the values of a claim; it lapses after expiry seconds."""
        return {self._owner.name: owner,
                self._expires_at.name: types.utcnow_plus(expiry)}

    @property
    def none(self) -> dict[str, Any]:
        """The values of a row that has no owner."""
        return {self._owner.name: None, self._expires_at.name: None}

    def is_free(self, owner: str | None = None) -> Any:
        """Return the condition that a row has no owner, or is the owner's."""
        return sa.or_(is_free(self._table),
                      *([] if owner is None else [self._owner == owner]))

    def is_of(self, key: str, owner: str) -> Any:
        """Return the condition that a row is that of a key and an owner."""
        return sa.and_(self._key == key, self._owner == owner)

    def take(self, connection: sa.Connection, key: str, owner: str,
             expiry: int, conditions: Iterable[Any] = (),
             is_again: bool = True, **values: Any) -> bool:
        """Claim a row that has no owner.

        :param connection: in a transaction.
        :param key: of the row.
        :param owner: who claims it.
        :param expiry: seconds after which the claim lapses.
        :param conditions: what must hold, too.
        :param is_again: whether the owner may claim it again.
        :param values: other columns that change.
        :returns: False if it has another owner, or there is no such row.
        """
        return connection.execute(
            sa.update(self._table)
            .where(self._key == key,
                   self.is_free(owner if is_again else None), *conditions)
            .values(**self.make(owner, expiry), **values)).rowcount == 1

    def hold(self, connection: sa.Connection, key: str, owner: str,
             expiry: int, **values: Any) -> bool:
        """Keep a claim, also one that lapsed and that no other owner took.

        :param expiry: seconds after which the claim lapses, from now on.
        :param values: other columns that change.
        :returns: False if it has another owner.
        """
        return self.change(connection, key, owner,
                           claim_expires_at=types.utcnow_plus(expiry),
                           **values)

    def change(self, connection: sa.Connection, key: str, owner: str,
               **values: Any) -> bool:
        """Change a row that an owner has claimed.

        :param values: columns that change.
        :returns: False if it has another owner.
        """
        return connection.execute(
            sa.update(self._table).where(self.is_of(key, owner))
            .values(**values)).rowcount == 1

    def release(self, connection: sa.Connection, key: str,
                owner: str) -> bool:
        """Give a claim back.

        :returns: False if it has another owner.
        """
        return self.change(connection, key, owner, **self.none)

    def delete(self, connection: sa.Connection, key: str, owner: str,
               *conditions: Any) -> bool:
        """Delete a row that an owner has claimed.

        :param conditions: what must hold, too.
        :returns: False if it has another owner.
        """
        return connection.execute(
            sa.delete(self._table).where(self.is_of(key, owner), *conditions)
        ).rowcount == 1

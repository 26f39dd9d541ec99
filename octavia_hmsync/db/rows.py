# SPDX-License-Identifier: Apache-2.0

"""What most functions of repositories do: read rows, and change one."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.db import api


def read(engine, query):
    """Return all rows of a query, by a connection of its own."""
    with engine.connect() as connection:
        return connection.execute(query).all()


def make(kind, row, **values):
    """Make a dataclass of a row, by the names of its fields.

    :param values: fields that are not as in the row.
    """
    return kind(**values, **{
        field.name: getattr(row, field.name)
        for field in dataclasses.fields(kind) if field.name not in values})


def update(connection, table, *conditions, **values):
    """Change the row that fulfils all conditions, in a transaction.

    :returns: False if there is none.
    """
    return connection.execute(
        sa.update(table).where(*conditions).values(**values)).rowcount == 1


@api.retry
def change(engine, table, *conditions, **values):
    """As update(), in a transaction of its own."""
    with engine.begin() as connection:
        return update(connection, table, *conditions, **values)

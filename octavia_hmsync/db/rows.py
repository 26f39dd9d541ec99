# SPDX-License-Identifier: Apache-2.0

"""What most functions of repositories do: read rows, and change one.

A bind is an engine, or a connection that is in a transaction.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.db import api

# Rows, or ids, in one statement.
AT_ONCE = 500


def split(items):
    """Return the parts of a list, each for one statement."""
    return (items[n:n + AT_ONCE] for n in range(0, len(items), AT_ONCE))


def read(bind, query):
    """Return all rows of a query."""
    if isinstance(bind, sa.Connection):
        return bind.execute(query).all()
    with bind.connect() as connection:
        return connection.execute(query).all()


def read_one(bind, query):
    """Return the row of a query, which finds one at most, or None."""
    return next(iter(read(bind, query)), None)


def make(kind, row, **values):
    """Make a dataclass of a row, by the names of its fields.

    :param values: fields that are not as in the row.
    """
    return kind(**values, **{
        field.name: getattr(row, field.name)
        for field in dataclasses.fields(kind) if field.name not in values})


@api.transaction
def change(connection, table, *conditions, **values):
    """Change the row that fulfils all conditions; False if there is none."""
    return connection.execute(
        sa.update(table).where(*conditions).values(**values)).rowcount == 1


@api.transaction
def write(connection, statement):
    """Return how many rows a statement has added, changed or deleted."""
    return connection.execute(statement).rowcount


def read_page(engine, select, after, size):
    """Return a page of (time, id), as a SELECT has them, in order."""
    time, key = select.selected_columns
    if after is not None:
        select = select.where(
            # The first of these is for the index.
            time >= after[0],
            sa.or_(time > after[0], key > after[1]))
    return [tuple(row) for row in read(
        engine, select.order_by(time, key).limit(size))]

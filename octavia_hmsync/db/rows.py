# SPDX-License-Identifier: Apache-2.0

"""What most functions of repositories do: read rows, and change one."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.db import api

# Rows, or ids, in one statement.
AT_ONCE = 500


def split(items):
    """Return the parts of a list, each for one statement."""
    return (items[n:n + AT_ONCE] for n in range(0, len(items), AT_ONCE))


def read(bind, query):
    """Return all rows of a query.

    :param bind: an engine, or a connection, in whose transaction it is.
    """
    if isinstance(bind, sa.Connection):
        return bind.execute(query).all()
    with bind.connect() as connection:
        return connection.execute(query).all()


def read_one(engine, query):
    """Return the first row of a query, or None."""
    with engine.connect() as connection:
        return connection.execute(query).first()


@api.retry
def write(engine, statement):
    """Execute a statement in a transaction of its own.

    :returns: how many rows it has changed, added or deleted.
    """
    with engine.begin() as connection:
        return connection.execute(statement).rowcount


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


def read_page(engine, select, after, size):
    """Return a page of (time, id), as a SELECT has them, in order."""
    time, key = select.selected_columns
    if after is not None:
        select = select.where(
            # The first of these is for the index.
            time >= after[0],
            sa.or_(time > after[0], key > after[1]))
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(
            select.order_by(time, key).limit(size))]

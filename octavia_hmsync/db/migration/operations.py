# SPDX-License-Identifier: Apache-2.0

"""What migrations share."""

from alembic import op
import sqlalchemy as sa


def add_columns(table, *columns):
    """Add those columns that are not there.

    MySQL has no transactional DDL: an upgrade that was killed left some.
    """
    there = {c['name'] for c in sa.inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in there:
            op.add_column(table, column)


def create_table(table, *columns):
    """Make a table, unless it is there."""
    if not sa.inspect(op.get_bind()).has_table(table):
        op.create_table(table, *columns, mysql_engine='InnoDB')


def create_indexes(table, **indexes):
    """Make missing indexes: names of columns by the name of the index."""
    there = {i['name'] for i in sa.inspect(op.get_bind()).get_indexes(table)}
    for name, columns in indexes.items():
        if name not in there:
            op.create_index(name, table, columns)

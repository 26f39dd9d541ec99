# SPDX-License-Identifier: Apache-2.0

"""Column types and SQL functions that mean the same on each database."""

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext import compiler
from sqlalchemy.sql import functions

# Whole seconds, MySQL's default, are too coarse for a keepalive age.
Timestamp = sa.DateTime().with_variant(
    mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
# MySQL's TEXT holds 64 KiB only.
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def storable(text, length=1000):
    """Make a text that a column of any character set takes.

    Agents and operators may send any text. One character that MySQL rejects
    would fail the whole transaction, and the text must be safe for a terminal.
    """
    return ''.join(c if c.isascii() and c.isprintable() else '?'
                   for c in text)[:length]


class utcnow(functions.FunctionElement):
    """The database server's time, in UTC with fractions of a second.

    Controllers' clocks may differ by minutes, so times that controllers
    compare never come from their own clocks.
    """

    type = sa.DateTime()
    inherit_cache = True
    name = 'utcnow'


@compiler.compiles(utcnow, 'mysql')
@compiler.compiles(utcnow, 'mariadb')
def _mysql_utcnow(element, compiler, **kwargs):
    return 'UTC_TIMESTAMP(6)'


@compiler.compiles(utcnow, 'sqlite')
def _sqlite_utcnow(element, compiler, **kwargs):
    # SQLAlchemy stores six digits of a second; %f gives three.
    return "(STRFTIME('%Y-%m-%d %H:%M:%f', 'now') || '000')"


class utcnow_plus(functions.FunctionElement):
    """The server's time plus seconds, a number or an SQL expression."""

    type = sa.DateTime()
    inherit_cache = True
    name = 'utcnow_plus'

    def __init__(self, seconds):
        if not isinstance(seconds, sa.ColumnElement):
            seconds = sa.bindparam(None, float(seconds), sa.Float(),
                                   unique=True)
        super().__init__(seconds)


@compiler.compiles(utcnow_plus, 'mysql')
@compiler.compiles(utcnow_plus, 'mariadb')
def _mysql_utcnow_plus(element, compiler, **kwargs):
    seconds = compiler.process(element.clauses, **kwargs)
    return f'(UTC_TIMESTAMP(6) + INTERVAL ({seconds}) SECOND)'


@compiler.compiles(utcnow_plus, 'sqlite')
def _sqlite_utcnow_plus(element, compiler, **kwargs):
    seconds = compiler.process(element.clauses, **kwargs)
    return ("(STRFTIME('%Y-%m-%d %H:%M:%f', 'now', "
            f"({seconds}) || ' seconds') || '000')")

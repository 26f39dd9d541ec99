# SPDX-License-Identifier: Apache-2.0

"""The base class of the plugin's tables."""

import typing

import sqlalchemy as sa
from sqlalchemy import orm


class Base(orm.DeclarativeBase):
    """Holds the metadata of all tables."""

    __table__: typing.ClassVar[sa.Table]

# SPDX-License-Identifier: Apache-2.0

"""What the modules with the plugin's tables share."""

import typing

import sqlalchemy as sa
from sqlalchemy import orm


class Base(orm.DeclarativeBase):
    """What the tables share: their metadata."""

    __table__: typing.ClassVar[sa.Table]

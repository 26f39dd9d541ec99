# SPDX-License-Identifier: Apache-2.0

"""Finds out who runs a command."""

import os
import pwd
import shlex
import socket
import uuid

from octavia_hmsync.db import order as order_repo
from octavia_hmsync.db import types

# Characters of arguments and reasons that are kept.
_LONGEST = 10000
# Of names of users and hosts.
_NAME = 255


def make(command, argv, reason):
    """Return the order.New of this process."""
    return order_repo.New(
        str(uuid.uuid4()), types.storable(command, _NAME),
        types.storable(shlex.join(argv), _LONGEST),
        types.storable(reason, _LONGEST) if reason else None,
        types.storable(_get_user(), _NAME), _get_sudo_user(),
        types.storable(socket.gethostname(), _NAME))


def _get_user():
    """Return the name of the user of this process, or its number."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        # As in a container that runs with any number.
        return str(os.geteuid())


def _get_sudo_user():
    """Return the user that called sudo, or None.

    Only root can be believed: others may set the variable themselves.
    """
    name = os.environ.get('SUDO_USER')
    return types.storable(name, _NAME) if name and os.geteuid() == 0 else None

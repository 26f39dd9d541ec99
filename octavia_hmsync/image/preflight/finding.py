# SPDX-License-Identifier: Apache-2.0

"""What a check of "image check" has found."""

import dataclasses
import enum


class Severity(enum.IntEnum):
    """How bad it is; the worst one is the exit code of the command."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


NAMES = {Severity.SUCCESS: 'Success', Severity.WARNING: 'Warning',
         Severity.FAILURE: 'Failure', None: 'Not checked'}


class Whose(enum.StrEnum):
    """Who has to act before a replacement can succeed."""

    # What the owner of one load balancer deleted, filled up or broke: a
    # secret, a port, a subnet, a QoS policy. Other load balancers are well.
    TENANT = 'tenant'
    # octavia.conf, a file that it names, a flavor or an availability zone of
    # Octavia, an image, a quota of Octavia's own project, hosts.
    OPERATOR = 'operator'
    # A service that gives no answer. Nothing is known of the load balancer.
    CLOUD = 'cloud'


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    :param severity: a Severity; None if the check could not be made.
    :param details: what is wrong and what to do, or why it was not made.
    :param is_passing: whether it may be well by itself in a while.
    :param whose: who has to act; means nothing for a success.
    """

    severity: Severity | None
    details: str | None = None
    is_passing: bool = False
    whose: Whose = Whose.OPERATOR

    @property
    def name(self) -> str:
        """The result in words, as "upgrade check" has them."""
        return NAMES[self.severity]


def success(details: str | None = None) -> Finding:
    """Return that nothing is in the way."""
    return Finding(Severity.SUCCESS, details)


def warning(details: str, whose: Whose = Whose.OPERATOR) -> Finding:
    """Return that a replacement may fail, or that nobody could tell."""
    return Finding(Severity.WARNING, details, whose=whose)


def failure(details: str, is_passing: bool = False,
            whose: Whose = Whose.OPERATOR) -> Finding:
    """Return that a replacement would fail, or would be refused."""
    return Finding(Severity.FAILURE, details, is_passing, whose)


def not_checked(details: str) -> Finding:
    """Return that this was not looked at, and why."""
    return Finding(None, details)

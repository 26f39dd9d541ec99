# SPDX-License-Identifier: Apache-2.0

"""The result of a check of a command, such as "image check"."""

from collections import abc
import dataclasses
import enum


class Severity(enum.IntEnum):
    """How bad a finding is; the worst is the command's exit code.

    The values are oslo.upgradecheck's.
    """

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


NAMES = {Severity.SUCCESS: 'Success', Severity.WARNING: 'Warning',
         Severity.FAILURE: 'Failure', None: 'Not checked'}


class Whose(enum.StrEnum):
    """Who has to act before a replacement can succeed."""

    # The owner of one load balancer deleted, filled up or broke something:
    # a secret, a port, a subnet, a QoS policy. It affects no other one.
    TENANT = 'tenant'
    # octavia.conf, a file that it names, a flavor or an availability zone of
    # Octavia, an image, a quota of Octavia's own project, or hosts.
    OPERATOR = 'operator'
    # A service gives no answer. Nothing is known of the load balancer.
    CLOUD = 'cloud'


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    :param severity: a Severity; None if the check could not be made.
    :param is_passing: whether the fault may pass by itself.
    :param whose: who has to act; means nothing for a success.
    """

    severity: Severity | None
    details: str | None = None
    is_passing: bool = False
    whose: Whose = Whose.OPERATOR

    @property
    def name(self) -> str:
        """The result in the words of oslo.upgradecheck, and one more."""
        return NAMES[self.severity]


def success(details: str | None = None) -> Finding:
    """Return that there is no fault."""
    return Finding(Severity.SUCCESS, details)


def warning(details: str, whose: Whose = Whose.OPERATOR) -> Finding:
    """Return that a replacement may fail, or that it is not known."""
    return Finding(Severity.WARNING, details, whose=whose)


def failure(details: str, is_passing: bool = False,
            whose: Whose = Whose.OPERATOR) -> Finding:
    """Return that a replacement would fail, or would be refused."""
    return Finding(Severity.FAILURE, details, is_passing, whose)


def not_checked(details: str) -> Finding:
    """Return that the check was not made, and why."""
    return Finding(None, details)


def worst(found: abc.Iterable[Finding]) -> Severity:
    """Return the exit code.

    Checks that were not made do not count: the cause is another finding.
    """
    return max((each.severity for each in found if each.severity is not None),
               default=Severity.SUCCESS)

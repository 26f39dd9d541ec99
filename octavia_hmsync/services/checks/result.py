# SPDX-License-Identifier: Apache-2.0

"""The result of a check of "octavia-hmsync upgrade check"."""

import dataclasses

from oslo_upgradecheck import upgradecheck


FAILURE = upgradecheck.Code.FAILURE


@dataclasses.dataclass(frozen=True)
class Result:
    """A check's result; code is None if it could not be made."""

    code: upgradecheck.Code | None
    details: str | None = None

    @property
    def name(self):
        """The result in words: oslo.upgradecheck's, and one more."""
        if self.code is None:
            return 'Not checked'
        return str(upgradecheck.UPGRADE_CHECK_MSG_MAP[self.code])


def success(details=None):
    """Return that all is well."""
    return Result(upgradecheck.Code.SUCCESS, details)


def warning(details):
    """Return that an operator should look at something."""
    return Result(upgradecheck.Code.WARNING, details)


def failure(details):
    """Return that the plugin cannot work."""
    return Result(upgradecheck.Code.FAILURE, details)


def not_checked(details):
    """Return that the check could not be made, and why."""
    return Result(None, details)


def worst(results):
    """Return the exit code.

    :param results: an iterable of Result. Checks that were not made do not
                    count: their cause is the failure of another check.
    """
    return max((result.code for result in results
                if result.code is not None),
               default=upgradecheck.Code.SUCCESS)

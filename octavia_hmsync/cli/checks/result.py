#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What a check of "octavia-hmsync upgrade check" has found."""

import dataclasses

from oslo_upgradecheck import upgradecheck


FAILURE = upgradecheck.Code.FAILURE


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one check.

    :param code: an upgradecheck.Code; None if the check could not be made.
    :param details: what is wrong and what to do, or why it was not made.
    """

    code: upgradecheck.Code | None
    details: str | None = None

    @property
    def name(self):
        """The result in words, those of oslo.upgradecheck and one more."""
        if self.code is None:
            return 'Not checked'
        return str(upgradecheck.UPGRADE_CHECK_MSG_MAP[self.code])


def success(details=None):
    """Return that all is well."""
    return Result(upgradecheck.Code.SUCCESS, details)


def warning(details):
    """Return that something should be looked at."""
    return Result(upgradecheck.Code.WARNING, details)


def failure(details):
    """Return that the plugin cannot work."""
    return Result(upgradecheck.Code.FAILURE, details)


def not_checked(details):
    """Return that nobody can tell, and why."""
    return Result(None, details)


def worst(results):
    """Return the exit code.

    :param results: an iterable of Result. What was not checked counts for
                    nothing: where that is somebody's fault, another check
                    has failed for it.
    :returns: an upgradecheck.Code.
    """
    return max((result.code for result in results
                if result.code is not None),
               default=upgradecheck.Code.SUCCESS)

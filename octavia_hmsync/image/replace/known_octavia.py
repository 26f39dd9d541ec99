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
"""Whether the installed Octavia is one that a mode can work with."""

from octavia_hmsync.compat import changes
from octavia_hmsync.db.repositories import image_rollout as rollout_repo


def why_not_replace():
    """Tell why mode replace does not know the installed Octavia.

    :returns: one line, None if it does.
    :raises Exception: any, if a driver of octavia.conf cannot be made.
    """
    found = changes.find_of_replace()
    if not found:
        # Takes seconds, and nothing that is gone.
        from octavia_hmsync.compat import amphora

        found = amphora.find_problems_of_build_flow()
    if not found:
        return None
    return (f'Mode replace does not know the installed Octavia: '
            f'{"; ".join(found)}. Use --mode failover, or install a release '
            f'of octavia-hmsync for this Octavia.')


def why_not_failover():
    """Tell why mode failover does not know it.

    :returns: one line, None if it does.
    """
    found = changes.find_of_failover()
    if not found:
        return None
    return (f'Mode failover does not know the installed Octavia: '
            f'{"; ".join(found)}. Install a release of octavia-hmsync for '
            f'this Octavia.')


def why_not(mode):
    """Tell why a mode does not know it.

    :param mode: REPLACE or FAILOVER of image_rollout.
    :returns: one line, None if it does.
    """
    return (why_not_failover() if mode == rollout_repo.FAILOVER
            else why_not_replace())

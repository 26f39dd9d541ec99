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

"""For how long somebody has looked at the database without a gap.

Whoever was cut off from it finds all keepalives old, because nobody could
write them: see member.state_of().
"""


class Steadiness:
    """Keeps the time since the last gap."""

    def __init__(self) -> None:
        self._since = 0.0
        self._looked_at = float('-inf')

    def note(self, now: float, longest: float) -> float:
        """Take note of a look.

        :param now: a monotonic time, seconds.
        :param longest: seconds since the last look from which on it is a gap.
        :returns: seconds since the last gap; 0.0 after one.
        """
        if now - self._looked_at > longest:
            self._since = now
        self._looked_at = now
        return now - self._since

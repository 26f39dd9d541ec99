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
"""Whether an agent has the listeners that its amphora is to serve: a rule."""

from collections.abc import Iterable, Iterator, Mapping

from octavia_hmsync import compat


def find_missing(amphora_id: str, expected: Iterable[str],
                 statuses: Mapping[str, str]) -> Iterator[str]:
    """Tell which listeners an amphora lacks, or does not serve.

    :param amphora_id: of which amphora.
    :param expected: the ids of those that it is to serve.
    :param statuses: {id: status}, as its agent has them.
    :returns: in words.
    """
    for listener_id in expected:
        status = statuses.get(listener_id)
        if status != compat.ACTIVE:
            yield (f'the agent of amphora {amphora_id} has listener '
                   f'{listener_id} as {status or "none of its own"}')

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

"""How an upload to an amphora can end."""

# The agent has acknowledged the list.
APPLIED = 'APPLIED'
# No answer, or a broken one, or one of somebody who is not this amphora.
UNREACHABLE = 'UNREACHABLE'
# The agent answered with an error.
REJECTED = 'REJECTED'
# The agent, or the amphora driver, cannot take a configuration.
UNSUPPORTED = 'UNSUPPORTED'

ALL = (APPLIED, UNREACHABLE, REJECTED, UNSUPPORTED)

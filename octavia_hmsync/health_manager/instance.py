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

"""Which process of octavia-health-manager this is, its children included.

Two may run under one ``[DEFAULT] host`` for a while, like a pod that moves;
the row of that host is of one of them.
"""

from oslo_utils import uuidutils

# Made with the import, which lifecycle.py does in the main process before it
# forks: the processes in which Octavia calls the statistics driver are
# children of a child, and nothing but what was there before reaches them. One
# that does not inherit it gets an id that no row has, and observes nothing.
ID: str = uuidutils.generate_uuid()

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

"""Finding the load balancer that an operator names."""

from octavia_hmsync.db.repositories import amphora_page as page_repo
from octavia_hmsync import exceptions


def find(engine, name):
    """Return the id of a load balancer that is not deleted.

    :param engine: an SQLAlchemy engine.
    :param name: its name or id.
    :raises NotPossible: if there is none, or several of that name.
    """
    ids = page_repo.find_load_balancers(engine, name)
    if not ids:
        raise exceptions.NotPossible(
            f'There is no load balancer {name}: see "openstack loadbalancer '
            f'list".')
    if len(ids) > 1:
        raise exceptions.NotPossible(
            f'There are {len(ids)} load balancers {name}: give the id of one '
            f'of them, {", ".join(ids)}.')
    return ids[0]

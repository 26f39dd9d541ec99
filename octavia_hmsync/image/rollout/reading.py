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

"""What a decision in a rollout is made from, read at once.

The number of statements is the same for one load balancer and for all.
"""

import dataclasses

from octavia_hmsync.db.repositories import image_exclusion as exclusion_repo
from octavia_hmsync.db.repositories import image_replacement as replace_repo
from octavia_hmsync.image import exclusions
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image.rollout import rules

_OUTDATED = (outdated.Outdated.YES, outdated.Outdated.MIXED)


@dataclasses.dataclass(frozen=True)
class Fleet:
    """Who is outdated.

    :param candidates: Candidates, by id.
    :param excluded: [(LoadBalancer, the Exclusion)] of the others.
    """

    candidates: list[rules.Candidate]
    excluded: list


def read_fleet(conf, engine, targets):
    """Read who is outdated, and who of these is to be left alone.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param targets: target.Targets.
    :returns: a Fleet.
    :raises CloudUnavailable: if the image service gives no answer.
    """
    excluded = exclusions.Exclusions(exclusion_repo.get_all(engine),
                                     exclusion_repo.get_tagged(engine))
    fleet = Fleet([], [])
    for load_balancer in inventory.Inventory(conf, engine).get_page():
        image_id = targets.get(load_balancer.tag).image_id
        if outdated.judge(load_balancer, image_id) not in _OUTDATED:
            continue
        exclusion = excluded.find(load_balancer)
        if exclusion is not None:
            fleet.excluded.append((load_balancer, exclusion))
        else:
            fleet.candidates.append(_make_candidate(load_balancer, image_id))
    return fleet


def _make_candidate(load_balancer, image_id):
    blocks = outdated.get_blocks(load_balancer, image_id)
    # What else is in the way tells something only when Octavia is done.
    is_pending = outdated.Blocked.PENDING in blocks
    return rules.Candidate(
        load_balancer.id, load_balancer.topology, load_balancer.flavor_id,
        load_balancer.availability_zone, image_id, is_pending,
        () if is_pending else tuple(map(str, blocks)))


def read_situation(conf, engine, targets, rollout):
    """Read what a decision is made from.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param targets: target.Targets.
    :param rollout: the Rollout, read before: what changes meanwhile counts
                    its version up.
    :returns: a rules.Situation.
    :raises CloudUnavailable: if the image service gives no answer.
    """
    replacements = replace_repo.get_of_rollout(engine, rollout.id)
    elsewhere = frozenset(
        r.load_balancer_id for r in replace_repo.get_open(engine)
        if r.rollout_id != rollout.id)
    return rules.Situation(
        rollout.settings, rollout.now,
        read_fleet(conf, engine, targets).candidates, replacements,
        elsewhere, replace_repo.get_start_ages(engine, rules.HOUR))

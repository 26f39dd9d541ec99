# SPDX-License-Identifier: Apache-2.0

"""Waits until all amphorae of a load balancer are proven to serve.

The load balancer is not locked meanwhile: its owner may change it.
"""

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import proof
from octavia_hmsync.image.replace import prover
from octavia_hmsync.image.replace import work as work_


class WholeProver(prover.Prover):
    """Checks every amphora; is_vip_shared as by a cluster's members."""

    def __init__(self, work, is_vip_shared=False):
        super().__init__(work, lambda *_: frozenset())
        self._is_vip_shared = is_vip_shared

    def prove_all(self, amphora_ids=None):
        """Wait until amphorae are proven to serve.

        The new one must have the target image, the others any.

        :param amphora_ids: ids of the amphorae; all present ones if None.
        :raises NotProven: with what is missing, after proof_timeout.
        :raises Lost, Stopped: as Work.check().
        """
        evidence = self._work.read()
        problems = self._wait(
            [self._expect_of(amphora_id, evidence.now)
             for amphora_id in sorted(amphora_ids or evidence.amphorae)],
            proof.HEARTBEATS, evidence.down_after if self._members else 0,
            evidence.now)
        if problems:
            raise exceptions.NotProven(
                f'Not every amphora is shown to serve: '
                f'{"; ".join(problems)}.')

    def _expect_of(self, amphora_id, since):
        return proof.Expectation(
            amphora_id, self._work.replacement.target_image_id
            if amphora_id == self._work.new_id else None, since,
            proof.HEARTBEATS_MISSED * self._interval,
            are_listeners_told=self._are_listeners_told,
            is_vip_shared=self._is_vip_shared)

    def _find_problems(self, expected):
        evidence = self._work.read()
        asked = evidence.amphorae.values()
        if self._is_vip_shared:
            # Other amphorae's own reports do not matter here.
            ids = {one.new_amphora_id for one in expected}
            asked = [amphora for amphora in asked if amphora.id in ids]
        holding = self._work.find_holders(asked, self._vip)
        problems: list[str] = []
        for one in expected:
            amphora = evidence.amphorae.get(one.new_amphora_id)
            try:
                listeners = ({} if amphora is None else
                             self._work.agent_of(amphora).get_listeners())
            except work_.AGENT_ERRORS as e:
                problems.append(str(e).rstrip('.'))
            else:
                problems += proof.find_problems(one, proof.Seen(
                    evidence, listeners, holding))
        # Several amphorae report the same of the load balancer.
        return list(dict.fromkeys(problems))

    def _find_worse(self, evidence):
        # A member that was added meanwhile had no status before.
        return proof.find_worse(self._members, {
            member_id: status for member_id, status
            in evidence.members.items() if member_id in self._members})

# SPDX-License-Identifier: Apache-2.0

"""What the tests of mode failover share."""

from tests.functional import replacements

TIMEOUT = 240


class FailoverTestCase(replacements.ReplacementTestCase):

    def fail_over(self, load_balancer, image):
        """Have it done; returns the row of the replacement."""
        return self.replace(load_balancer, image, mode='failover',
                            timeout=TIMEOUT)

    def status(self, load_balancer):
        return self.api.get_load_balancer(
            load_balancer.id).provisioning_status

    def assertFailedOver(self, load_balancer, image):
        """Have it done under a client; each of its amphorae is another."""
        before = self.look(load_balancer)
        with self.under_probe(load_balancer) as seen:
            self.assertDone(self.fail_over(load_balancer, image))
        # For how long nobody answers is no promise.
        self.assertGreater(seen.report.requests, seen.report.failed)
        self.assertUpgraded(load_balancer, image, before)

    def old(self, load_balancer, before):
        """Those that were there before and serve."""
        return [amphora_id for amphora_id, row in
                self.amphorae(load_balancer).items()
                if amphora_id in before['amphorae'] and
                row['status'] == 'ALLOCATED']

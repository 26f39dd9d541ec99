# SPDX-License-Identifier: Apache-2.0

"""Amphorae are replaced on a whole Octavia, under a client's requests.

tests/soak/test_image_replace*.py have each phase, and each request.
"""

from tests.functional import replacements

# Seconds. In a pair one leaves the VIP when it hears that another one has a
# higher priority, and that one takes it then. Octavia's own failover of the
# holder takes 1.65 to 2.9 seconds.
_DARK = 0.5
_OVERLAP = 0.05


class TestReplace(replacements.ReplacementTestCase):

    def test_make_before_break(self):
        made = [self.add_load_balancer(topology)
                for topology in ('SINGLE', 'ACTIVE_STANDBY')]
        single, pair = made
        before = {each.id: self.look(each) for each in made}
        image = self.cloud.add_image('second')
        numbers = self.watch_numbers(pair)
        with (self.under_probe(single) as seen_single,
              self.under_probe(pair) as seen_pair):
            begun = [self.begin(each, image) for each in made]
            for each in begun:
                self.assertDone(self.wait_until_ended(each))
        self.assertHardlyNoticed(seen_single.report)
        self.assertNotIn(0, seen_single.holders)
        self.assertLess(seen_pair.report.dark, _DARK, seen_pair.report)
        self.assertLess(seen_pair.holders.get(2, 0), _OVERLAP)
        self.assertLessEqual({2, 3}, numbers.seen)
        self.assertLessEqual(2, min(numbers.seen), numbers.seen)
        for each in made:
            self.wait_until_online(each)
            self.assertUpgraded(each, image, before[each.id])

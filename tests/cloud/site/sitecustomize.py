# SPDX-License-Identifier: Apache-2.0

"""Has Octavia's services start sooner; Python imports this at its start.

And has those tell of their steps of which a test asks for it.

All of them import the types of Octavia's API. For the order of their
attributes wsme reads the source of each class and of its bases, and inspect
parses the whole file each time. That is more than half of what a start costs
the processor; nothing but the repetition is left out.
"""

import functools
import inspect
import os

inspect.getsourcelines = functools.cache(inspect.getsourcelines)

if os.environ.get('OCTAVIA_HMSYNC_TESTS_STEPS'):
    import hmsync_tests_steps
    hmsync_tests_steps.install()

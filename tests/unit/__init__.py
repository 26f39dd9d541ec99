# SPDX-License-Identifier: Apache-2.0

import functools
import gc
import inspect

# As tests/cloud/site has it for Octavia's services: more than half of what it
# takes to import the types of Octavia's API.
inspect.getsourcelines = functools.cache(inspect.getsourcelines)

# Octavia, the plugin and their tests are 400 000 objects that last as long as
# the process. By its own measure the collector goes through all of them again
# and again, while tests are imported and while they run: an eighth of the time
# of a processor.
gc.set_threshold(100_000, 50, 100)

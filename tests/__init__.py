# SPDX-License-Identifier: Apache-2.0

import functools
import inspect

# As tests/cloud/site has it for Octavia's services: more than half of what it
# takes to import the types of Octavia's API.
inspect.getsourcelines = functools.cache(inspect.getsourcelines)

# SPDX-License-Identifier: Apache-2.0

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

# SPDX-License-Identifier: Apache-2.0

"""How an upload to an amphora can end."""

# The agent has acknowledged the list.
APPLIED = 'APPLIED'
# No answer, a broken answer, or an answer of another host.
UNREACHABLE = 'UNREACHABLE'
# The agent answered with an error.
REJECTED = 'REJECTED'
# The agent, or the amphora driver, cannot take a configuration.
UNSUPPORTED = 'UNSUPPORTED'

ALL = (APPLIED, UNREACHABLE, REJECTED, UNSUPPORTED)

# SPDX-License-Identifier: Apache-2.0

"""The list of health managers, brought to every amphora."""

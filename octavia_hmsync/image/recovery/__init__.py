# SPDX-License-Identifier: Apache-2.0

"""What failovers left behind: finding it, bringing it back."""

# SPDX-License-Identifier: Apache-2.0

"""What would make a replacement fail, before anything is changed."""

# SPDX-License-Identifier: Apache-2.0

"""Commands on clusters and distributors, a module for each."""

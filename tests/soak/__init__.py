# SPDX-License-Identifier: Apache-2.0

from tests.cloud import isolation

isolation.isolate()

# SPDX-License-Identifier: Apache-2.0

"""Load balancers of OVN, told by its northbound database."""

from importlib import util

from octavia_hmsync import exceptions

# Only where OVN is used; controllers of other clouds have neither.
_MISSING = [name for name in ('ovs', 'ovsdbapp') if not util.find_spec(name)]
if _MISSING:
    raise exceptions.InvalidConfiguration(
        f'OVN cannot be asked without {" and ".join(_MISSING)}, which the '
        f'environment of this service does not have: install '
        f'octavia-hmsync[ovn] there.')

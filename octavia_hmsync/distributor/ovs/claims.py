# SPDX-License-Identifier: Apache-2.0

"""Flows for who says that an address of the VIP were its own. Pure.

The process is given one such frame of each sender, and the next one only
PAUSE later, however many come: all others end in the data path.

    CLAIMS      learned: senders of whom it was given one
    NEWS        whether it is given this one
"""

from collections import abc

from octavia_hmsync.distributor.ovs import openflow

CLAIMS, NEWS = 90, 92

# Seconds until the process is given another frame of the same sender.
PAUSE = 10
# Senders of whom it is given frames at a time: of others it is given none.
_MOST = 64
# Beside those of pins, see sharing.get_pin_cookie().
_COOKIE = 4 << 48
_IS_NEWS = 'reg8'
# Bytes of a frame that the process is given: more than it reads.
_LENGTH = 128

# What a frame that says so comes to.
ACTIONS = (f'resubmit(,{CLAIMS})',)


def make_flows() -> abc.Iterator[openflow.Flow]:
    """Return the flows that ACTIONS lead to."""
    yield openflow.Flow(CLAIMS, 0, (), (
        f'learn(table={CLAIMS},priority=10,cookie={_COOKIE:#x},'
        f'hard_timeout={PAUSE},limit={_MOST},'
        f'result_dst=NXM_NX_REG8[0],NXM_OF_ETH_SRC[])',
        f'resubmit(,{NEWS})'))
    yield openflow.Flow(NEWS, 10, (f'{_IS_NEWS}=1',),
                        (f'controller(max_len={_LENGTH})',))

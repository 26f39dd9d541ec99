# SPDX-License-Identifier: Apache-2.0

"""Images of amphorae that nobody should roll out, each in its own way."""

from tests.cloud.compute import ailing_agent
from tests.cloud.compute import instance

_REFUSAL = ("[ALERT] (1) : config : parsing [haproxy.cfg:1]: unknown keyword "
            "'global' out of section.")


def never_boots():
    """One whose instances end in ERROR."""
    return instance.Image(boots=False)


def refuses_listeners():
    """One whose haproxy takes no configuration; its agent answers 400."""
    return instance.Image(programs={
        'haproxy': f'#!/bin/sh\ncat >&2 <<"."\n{_REFUSAL}\n.\nexit 1\n'})


def never_sends_heartbeats():
    """One that no health manager ever hears; all else of it works."""
    return _ailing(ailing_agent.MUTE)


def other_api_version(version='2.0'):
    """One whose agent speaks an API that this Octavia does not."""
    return _ailing(ailing_agent.OTHER_API, version)


def fails_with_vip():
    """One that is well until it has the VIP.

    Its agent then lists each listener as one with an error, so that a proof
    before the switch holds, and one after it does not.
    """
    return _ailing(ailing_agent.FAILS_WITH_VIP)


def haproxy_does_not_stay(seconds=2):
    """One whose haproxy is killed again and again, and started again."""
    return _ailing(ailing_agent.KILLS_HAPROXY, str(seconds))


def reaches_no_member():
    """One whose haproxy takes each member to be where nobody listens."""
    return _ailing(ailing_agent.OTHER_MEMBERS)


def _ailing(*words):
    return instance.Image(agent=ailing_agent.__file__, environment={
        ailing_agent.VARIABLE: ' '.join(words)})

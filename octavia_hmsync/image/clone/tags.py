# SPDX-License-Identifier: Apache-2.0

"""Pure: what is remembered of a clone, as tags of both load balancers.

A tag is ``octavia-hmsync:WORD=ID``:

``clone-of``
    at the clone, from the request that makes it: the id of its source.
``clone-fip``
    at the clone: the id of a floating IP that came, or will come, from the
    source. One that the clone was given by somebody else has none.
``retired-by``
    at the source, from the moment on in which it is being deleted: the id of
    the clone.

Where the floating IPs are says the rest, so no tag has to be changed by a
switch or by the way back.
"""

import typing

PREFIX = 'octavia-hmsync:'
CLONE_OF = 'clone-of'
FLOATING_IP = 'clone-fip'
RETIRED_BY = 'retired-by'
_WORDS = (CLONE_OF, FLOATING_IP, RETIRED_BY)


def make(word: str, value: str) -> str:
    """Return the tag for a word and an id."""
    return f'{PREFIX}{word}={value}'


def values(tags: typing.Iterable[str], word: str) -> list[str]:
    """Return the ids that are remembered under a word."""
    start = make(word, '')
    return [tag.removeprefix(start) for tag in tags if tag.startswith(start)]


def is_ours(tag: str) -> bool:
    """Tell whether a tag is one of these."""
    return any(tag.startswith(make(word, '')) for word in _WORDS)


def foreign(tags: typing.Iterable[str] | None) -> list[str]:
    """Return the tags that are somebody else's."""
    return [tag for tag in tags or () if not is_ours(tag)]


def change(tags: typing.Iterable[str], add: typing.Iterable[str] = (),
           remove: typing.Iterable[str] = ()) -> list[str]:
    """Return tags with some more and some less, each once, in their order."""
    gone = set(remove)
    return [tag for tag in dict.fromkeys((*tags, *add)) if tag not in gone]

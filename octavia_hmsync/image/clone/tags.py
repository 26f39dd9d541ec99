# SPDX-License-Identifier: Apache-2.0

"""Pure: the tags of source and clone that record their relation.

A tag is ``octavia-hmsync:WORD=ID``:

``clone-of``
    at the clone, from the request that makes it: the id of its source.
``clone-fip``
    at the clone: the id of a floating IP that came, or will come, from the
    source. A floating IP that the clone got otherwise has no such tag.
``retired-by``
    at the source, as soon as it is being deleted: the id of the clone.

The present place of the floating IPs tells the rest. So no tag has to change
with a switch or the way back.
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
    """Return the ids of the tags with a word."""
    start = make(word, '')
    return [tag.removeprefix(start) for tag in tags if tag.startswith(start)]


def is_ours(tag: str) -> bool:
    """Tell whether a tag is the plugin's."""
    return any(tag.startswith(make(word, '')) for word in _WORDS)


def foreign(tags: typing.Iterable[str] | None) -> list[str]:
    """Return the tags that are not the plugin's."""
    return [tag for tag in tags or () if not is_ours(tag)]


def change(tags: typing.Iterable[str], add: typing.Iterable[str] = (),
           remove: typing.Iterable[str] = ()) -> list[str]:
    """Return tags with some added and some removed, in their order."""
    gone = set(remove)
    return [tag for tag in dict.fromkeys((*tags, *add)) if tag not in gone]

# SPDX-License-Identifier: Apache-2.0

"""Reads agent configurations as the agent's oslo.config does.

A ConfigOpts object for each upload would cost more than its TLS handshake.
"""

import typing

from oslo_config import cfg
from oslo_config import iniparser
from oslo_config import types

_LIST = types.List()
_INTEGER = types.Integer()


class Configuration(typing.NamedTuple):
    """The options that make a difference to who hears of an amphora.

    :param controller_ip_port_list: a tuple.
    :param heartbeat_interval: None if the sender dies of it.
    """

    controller_ip_port_list: tuple
    heartbeat_interval: int | None
    heartbeat_key: str | None
    amphora_id: str | None


class _NoOptions(dict):
    """A value that refers to another option cannot be read here.

    The template that the configuration is made from has none.
    """

    def __missing__(self, name):
        raise ValueError(f'refers to the option {name}')


class _Parser(iniparser.BaseParser):

    def __init__(self):
        super().__init__()
        self._section = None
        self.options = {}

    def new_section(self, section):
        # oslo.config does not tell [GROUP] from [group].
        self._section = section.lower()

    def assignment(self, key, value):
        if self._section is None:
            raise self.parse_exc('Section must be started before assignment',
                                 self.lineno, key)
        # The last one counts.
        self.options[self._section, key] = '\n'.join(value)


def _substitute(value):
    if '$' not in value:
        return value
    return cfg.ConfigOpts.Template(
        value.replace(r'\$', '$$')).safe_substitute(_NoOptions())


def _interval(get):
    try:
        interval = get('health_manager', 'heartbeat_interval', 10, _INTEGER)
    except ValueError:
        return None
    return None if interval is None or interval < 0 else interval


def parse(body):
    """Parse a configuration file.

    The agent takes a file with values that its sender then stumbles over. An
    interval that is none ends the sender. Any other value leaves the amphora
    silent until the next upload, which is what an empty list does, too.

    :param body: the file, as bytes.
    :returns: a Configuration, with Octavia's defaults for what is missing.
    :raises ValueError: if the agent would not take the file.
    """
    parser = _Parser()
    try:
        parser.parse(body.decode().splitlines())
    except iniparser.ParseError as e:
        raise ValueError(str(e)) from e

    def get(group, option, default, convert=str):
        value = parser.options.get((group, option))
        return default if value is None else convert(_substitute(value))

    interval = _interval(get)
    try:
        return Configuration(
            tuple(get('health_manager', 'controller_ip_port_list', (),
                      _LIST)),
            interval, get('health_manager', 'heartbeat_key', None),
            get('amphora_agent', 'amphora_id', None))
    except ValueError:
        return Configuration((), interval, None, None)

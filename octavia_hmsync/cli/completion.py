# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync complete.

cliff's own script stops at the first option and knows no values. A program
that is asked at each press of a key, as argcomplete does, would take the
seconds that Octavia takes to load; so commands, options and choices stand in
the script, and of the database only host names are asked for.
"""

import argparse
import re
import shlex
import typing

from cliff import complete

from octavia_hmsync.cli import host_names

# What a metavar calls for; of any other one nothing is known.
_COMPLETED = ('<file>', '<dir>', '<health-manager>')
# One of cliff's, which has no such metavar for it.
_FILES = ('--log-file',)

# Stands for any command.
_ANY = '-'

_SCRIPT = r'''# By "octavia-hmsync complete"; make it anew after an upgrade.
_%(name)s()
{
  local -A commands=(%(commands)s
  )
  local -A options=(%(options)s
  )
  # By "command option", or "command number" of what has no option; "*" is
  # any number, and "-" any command.
  local -A values=(%(values)s
  )

  local cmd='' pending='' kind='' word='' action=-f number=0 i
  local cur=${COMP_WORDS[COMP_CWORD]}
  local -a config=()
  COMPREPLY=()
  # bash may take "--option=value" for three words.
  [[ $cur == = ]] && cur=
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue
    elif [[ -n $pending ]]; then
      [[ $pending == --config-* ]] && config+=("$pending" "$word")
      pending=
    elif [[ $word == --config-*=* ]]; then
      config+=("$word")
    elif [[ $word == -* ]]; then
      [[ -n ${values["${cmd:--} $word"]+is}${values["- $word"]+is} ]] &&
        pending=$word
    elif [[ -z $cmd && $word == help ]]; then
      continue
    elif [[ -n ${options["${cmd:+$cmd }$word"]+is} ||
            -n ${commands["${cmd:+$cmd }$word"]+is} ]]; then
      cmd="${cmd:+$cmd }$word"
    else
      ((number++))
    fi
  done

  if [[ -n $pending ]]; then
    kind=${values["${cmd:--} $pending"]-${values["- $pending"]}}
  elif [[ $cur == -* ]]; then
    kind=${options["${cmd:--}"]-${options[-]}}
  elif [[ -n ${commands["${cmd:--}"]+is} ]]; then
    ((number)) && return
    kind=${commands["${cmd:--}"]}
  else
    kind=${values["$cmd $number"]-${values["$cmd *"]}}
  fi
  case $kind in
    '<file>'|'<dir>')
      # Outside of readline there is nothing to tell about blanks and "~".
      compopt -o filenames -o default 2>/dev/null
      [[ $kind == '<dir>' ]] && action=-d
      mapfile -t COMPREPLY < <(compgen $action -- "$cur")
      ;;
    '<health-manager>')
      # compgen -W would have the shell expand what the database has.
      while IFS= read -r word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
      done < <("${COMP_WORDS[0]}" "${config[@]}" complete --hosts \
                 2>/dev/null)
      ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$cur")
      ;;
  esac
}
complete -F _%(name)s %(command)s
'''


class Complete(complete.CompleteCommand):
    """Print what completes commands in bash."""

    # The application of cmd.hmsync.
    app: typing.Any

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--hosts', action='store_true',
            help='print the hosts of the registered health managers instead, '
                 'or nothing if the database cannot be read within some '
                 'seconds; the script asks so')
        return parser

    def take_action(self, parsed_args):
        if parsed_args.hosts:
            print_hosts(self.app.config_args, self.app.stdout)
        elif parsed_args.shell == 'bash':
            self.app.stdout.write(self._make_script(
                parsed_args.name or self.app.NAME))
        else:
            super().take_action(parsed_args)

    def _make_script(self, command_name):
        commands: dict[str, set] = {}
        options, values = {}, {}
        for name, _entry_point in self.app.command_manager:
            words = name.split()
            for n, word in enumerate(words):
                commands.setdefault(' '.join(words[:n]) or _ANY,
                                    set()).add(word)
            factory = self.app.command_manager.find_command(words)[0]
            options[name], found = _describe(
                factory(self.app, None).get_parser(name))
            values.update({f'{name} {key}': value
                           for key, value in found.items()})
        anywhere, found = _describe(self.app.parser)
        values.update({f'{_ANY} {key}': value
                       for key, value in found.items()})
        options = {name: ' '.join(dict.fromkeys([*own, *anywhere]))
                   for name, own in {**options, _ANY: []}.items()}
        return _SCRIPT % {
            'command': shlex.quote(command_name),
            'name': re.sub(r'\W', '_', command_name),
            'commands': _to_bash({name: ' '.join(sorted(words))
                                  for name, words in commands.items()}),
            'options': _to_bash(options), 'values': _to_bash(values)}


def print_hosts(config_args, stream):
    """Print the hosts of health managers, one a line.

    :param config_args: ``--config-file`` and ``--config-dir`` arguments.
    :param stream: where to write.
    """
    for host in host_names.get_all(config_args):
        stream.write(f'{host}\n')


def _describe(parser):
    """Tell what an argparse parser takes.

    :returns: (its options, what completes a value by the option
              or by the number of what has none, a dict).
    """
    options, values = [], {}
    number = 0
    for action in parser._actions:
        options += action.option_strings
        if action.nargs == 0:
            continue
        if action.choices is not None:
            value = ' '.join(map(str, action.choices))
        elif set(action.option_strings) & set(_FILES):
            value = '<file>'
        else:
            value = action.metavar if action.metavar in _COMPLETED else ''
        if action.option_strings:
            values.update(dict.fromkeys(action.option_strings, value))
        else:
            values['*' if action.nargs in (argparse.ZERO_OR_MORE,
                                           argparse.ONE_OR_MORE)
                   else str(number)] = value
            number += 1
    return options, values


def _to_bash(table):
    """Write a dict as the elements of an associative array."""
    return ''.join(f'\n    [{shlex.quote(key)}]={shlex.quote(value)}'
                   for key, value in sorted(table.items()))

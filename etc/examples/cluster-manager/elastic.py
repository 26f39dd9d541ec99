#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Has clusters follow their load, by octavia-hmsync's own command.

An example of a manager outside octavia-hmsync. Replacing what dies, draining
and the cooldown stay with the cluster's own manager; this only says how many
members are wanted, as an operator would, and may die at any time:

    elastic.py --cluster web --per-member 20000 --most 8 -- ./sessions.sh web

The command after -- prints the load as a number, for example sessions that
Prometheus counts. Nothing is changed where it prints none.
"""

import argparse
import json
import math
import subprocess
import sys
import time

# A member less is wanted only if the rest were no fuller than that.
CALM = 0.7


def choose(load, current, per_member, least, most):
    """Tell how many members are wanted.

    :param load: what all of them have together.
    :param current: how many are wanted now.
    :param per_member: what one can have.
    :param least, most: bounds.
    """
    needed = math.ceil(load / per_member)
    if needed < current:
        # Down only where that does not call for up at once.
        calm = math.ceil(load / (per_member * CALM))
        needed = min(current, max(needed, calm))
    return max(least, min(most, needed))


def run(command):
    """Return what a command prints.

    :raises subprocess.CalledProcessError: if it fails.
    """
    return subprocess.run(command, check=True, text=True, timeout=60,
                          stdout=subprocess.PIPE).stdout


def follow(options, ask=run):
    """Look once.

    :param options: as parse() returns them.
    :param ask: runs a command.
    :returns: how many members are wanted from now on.
    """
    shown = json.loads(ask([options.hmsync, 'cluster', 'show', '-f', 'json',
                            options.cluster]))
    current = shown['desired_size']
    load = float(ask(options.command))
    if not math.isfinite(load) or load < 0:
        raise ValueError(f'{load} is no load')
    wanted = choose(load, current, options.per_member, max(
        options.least, shown['min_size']), options.most)
    if wanted != current:
        ask([options.hmsync, 'cluster', 'set', '--desired', str(wanted),
             options.cluster])
    return wanted


def parse(arguments):
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--hmsync', default='octavia-hmsync')
    parser.add_argument('--cluster', required=True)
    parser.add_argument('--per-member', type=float, required=True)
    parser.add_argument('--least', type=int, default=1)
    parser.add_argument('--most', type=int, required=True)
    parser.add_argument('--interval', type=float, default=30)
    parser.add_argument('command', nargs='+')
    return parser.parse_args(arguments)


def main():
    """Look again and again."""
    options = parse(sys.argv[1:])
    while True:
        try:
            follow(options)
        except (OSError, ValueError, KeyError, TypeError,
                subprocess.SubprocessError) as e:
            print(f'elastic.py: {e}', file=sys.stderr, flush=True)
        time.sleep(options.interval)


if __name__ == '__main__':
    main()

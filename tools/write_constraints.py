# SPDX-License-Identifier: Apache-2.0

"""Write down what is installed in an environment of a release.

"tox -e constraints-2025.1" calls it in one that it has just made with
OpenStack's upper constraints of 2025.1.
"""

import pathlib
import subprocess
import sys

HEADER = """\
# What the test environments of OpenStack {release} have, as pip chose it on
# Python {python} under OpenStack's upper constraints.
# Made by "tox -e constraints-{release}".
"""


def main(environment_name):
    release = environment_name.removeprefix('constraints-')
    installed = subprocess.run(
        [sys.executable, '-m', 'pip', 'freeze', '--exclude-editable'],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    (pathlib.Path('constraints') / f'{release}.txt').write_text(
        HEADER.format(release=release,
                      python='%d.%d' % sys.version_info[:2]) + installed)


if __name__ == '__main__':
    main(sys.argv[1])

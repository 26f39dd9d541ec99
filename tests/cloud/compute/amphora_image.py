# SPDX-License-Identifier: Apache-2.0

"""A real image of amphorae, of Octavia's own elements.

    python -m tests.cloud.compute.amphora_image [VERSION OF OCTAVIA]

builds one, or tells where it is.
"""

from importlib import metadata
import pathlib
import re
import shutil
import sys

from packaging import version

from tests.cloud.compute import disk_image
from tests.cloud import isolation
from tests.cloud import process

_CONSTRAINTS = pathlib.Path(__file__).resolve().parents[3] / 'constraints'
# Those of diskimage-create.sh, without what a test has no use for: sos,
# octavia-lib (of PyPI then).
_ELEMENTS = ('haproxy-octavia', 'no-resolvconf', 'amphora-agent',
             'cloud-init-datasources', 'remove-default-ints',
             'keepalived-octavia', 'ipvsadmin', 'certs-ramfs')
# Debian has not got the first two; no wheel needs a compiler; pollinate and
# the tools of VMware have nothing to talk to.
_LEFT_OUT = ('ubuntu-cloudimage-keyring', 'ppc64-diag', 'build-essential',
             'libffi-dev', 'libssl-dev', 'dkms', 'pollinate',
             'open-vm-tools')


def get_octavia(release):
    """Return the version of Octavia that is tested of a release."""
    return re.search(r'(?m)^octavia==(.*)$', (
        _CONSTRAINTS / f'{release}.txt').read_text())[1]


def make(octavia=None):
    """Return the disk_image.DiskImage; build it where there is none.

    :param octavia: a version; that of this environment where None is given.
    :raises NoImage: it cannot be built here.
    """
    octavia = octavia or metadata.version('octavia')
    constraints = _constraints(octavia)
    return disk_image.ensure(
        f'amphora-{octavia}', (_ELEMENTS, _LEFT_OUT, constraints),
        lambda work: _prepare(octavia, constraints, work))


def _constraints(octavia):
    """Return what versions an agent of some Octavia has its libraries in."""
    release = {16: '2025.1', 17: '2025.2', 18: '2026.1'}.get(
        version.parse(octavia).major, '2026.2')
    lines = (_CONSTRAINTS / f'{release}.txt').read_text().splitlines()
    # The agent is what is constrained.
    return '\n'.join(line for line in lines
                     if not re.match('octavia(==|-hmsync)', line)) + '\n'


def _prepare(octavia, constraints, work):
    process.run(*isolation.outside(
        disk_image.make_builder() / 'bin/pip', 'download', '-q', '--no-deps',
        '--no-binary', 'octavia', '--no-build-isolation', '-d', work,
        f'octavia=={octavia}'))
    source = work / f'octavia-{octavia}'
    process.run('tar', '--no-same-owner', '-xzf', f'{source}.tar.gz', '-C',
                work)
    elements = _copy_elements(source, work)
    disk_image.make_repository(source, octavia)
    path = work / 'upper-constraints.txt'
    path.write_text(constraints)
    return _ELEMENTS, [elements], {
        'DIB_REPOLOCATION_amphora_agent': str(source),
        'DIB_REPOREF_amphora_agent': 'master',
        'DIB_REPOLOCATION_upper_constraints': f'file://{path}',
        'DIB_CLOUD_INIT_DATASOURCES': 'ConfigDrive, None',
        'DIB_OCTAVIA_AMP_USE_SSH': 'False',
        'DIB_OCTAVIA_AMP_USE_NFTABLES': 'True'}


def _copy_elements(source, work):
    """Copy Octavia's elements, as this Debian needs them; return where."""
    target = work / 'elements'
    shutil.copytree(source / 'elements', target, symlinks=True)
    path = target / 'amphora-agent/package-installs.yaml'
    path.write_text(re.sub(
        rf'(?m)^({"|".join(_LEFT_OUT)}):.*\n(  .*\n)*', '',
        path.read_text()))
    return target


if __name__ == '__main__':
    try:
        print(make(*sys.argv[1:]).directory)
    except disk_image.NoImage as e:
        sys.exit(str(e))

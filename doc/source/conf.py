# SPDX-License-Identifier: Apache-2.0

import pathlib
import subprocess
import sys

from octavia_hmsync import version as hmsync_version

sys.path.insert(0, str(pathlib.Path(__file__).parent / '_ext'))

extensions = [
    'cliff.sphinxext',
    'module_map',
    'oslo_config.sphinxconfiggen',
    'oslo_config.sphinxext',
    'reference',
]

project = 'octavia-hmsync'
copyright = '2026, octavia-hmsync contributors'
master_doc = 'index'
source_suffix = '.rst'

version = release = hmsync_version.version_string()

openstackdocs_auto_name = False
openstackdocs_auto_version = False
# What "report a bug" leads to.
openstackdocs_bug_project = 'octavia'
openstackdocs_bug_tag = 'octavia-hmsync'
html_static_path = ['_static']
html_css_files = ['octavia-hmsync.css']

config_generator_config_file = (
    '../../etc/config/octavia-hmsync-config-generator.conf')
sample_config_basename = '_static/octavia-hmsync'

autoprogram_cliff_application = 'octavia-hmsync'
# What each command that prints something takes; cli/output.rst has it, once.
autoprogram_cliff_ignored = [
    '--help', '--format', '--column', '--sort-column', '--sort-ascending',
    '--sort-descending', '--max-width', '--fit-width', '--print-empty',
    '--noindent', '--quote', '--prefix']

# OpenStack's theme asks git for the date of each page, and warns without it.
try:
    subprocess.run(['git', 'rev-parse', 'HEAD'], check=True,
                   capture_output=True)
except (OSError, subprocess.CalledProcessError):
    html_theme = 'alabaster'
else:
    extensions.append('openstackdocstheme')
    html_theme = 'openstackdocs'
    html_theme_options = {'display_global_toc_section': True}
pygments_style = 'native'

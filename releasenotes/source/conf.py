# SPDX-License-Identifier: Apache-2.0

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
]

project = 'octavia-hmsync Release Notes'
copyright = '2026, octavia-hmsync contributors'
master_doc = 'index'
source_suffix = '.rst'
# Release notes cover several versions at once.
release = ''
version = ''

openstackdocs_auto_name = False
openstackdocs_auto_version = False

html_theme = 'openstackdocs'
html_theme_options = {'display_global_toc_section': False}
pygments_style = 'native'

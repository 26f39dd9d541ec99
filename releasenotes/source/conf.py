# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

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

#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Output formats that cliff lacks."""

import csv

from cliff.formatters import base


class ShowCSVFormatter(base.SingleFormatter):
    """One object as CSV: a line of names and a line of values."""

    def add_argument_group(self, parser):
        """Take no arguments."""

    def emit_one(self, column_names, data, stdout, parsed_args):
        """Write the object."""
        writer = csv.writer(stdout, lineterminator='\n')
        writer.writerow(column_names)
        writer.writerow(data)

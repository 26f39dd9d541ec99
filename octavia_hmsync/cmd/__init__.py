# SPDX-License-Identifier: Apache-2.0

import warnings

# Octavia's libraries still import eventlet, which says so on stderr.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')

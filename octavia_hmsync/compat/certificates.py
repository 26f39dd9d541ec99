# SPDX-License-Identifier: Apache-2.0

"""Certificates and secrets, as Octavia's workers fetch them."""

from oslo_context import context
from stevedore import driver as stevedore_driver


def load_manager(name):
    """Load a certificate manager by entry point, for the functions below."""
    return stevedore_driver.DriverManager(
        namespace='octavia.cert_manager', name=name,
        invoke_on_load=True).driver


def fetch_certificate(manager, project_id, ref):
    """Fetch a certificate with its key, to see whether that works.

    :param ref: reference to it; no consumer is registered for it.
    :raises Exception: any error of the manager.
    """
    manager.get_cert(context.RequestContext(project_id=project_id), ref,
                     check_only=True)


def fetch_secret(manager, project_id, ref):
    """Fetch an authority's certificate, or a revocation list, likewise."""
    manager.get_secret(context.RequestContext(project_id=project_id), ref)

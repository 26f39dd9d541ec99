# SPDX-License-Identifier: Apache-2.0

"""Whether the certificates of a load balancer can still be fetched."""

import threading
import time

from keystoneauth1 import exceptions as ks_exc
import requests

from octavia_hmsync.cli import finding
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.image.preflight import facts

# Characters of an error's text, which may be long.
_LENGTH = 200
_UNREACHABLE = (ks_exc.ConnectionError, ks_exc.DiscoveryFailure,
                requests.ConnectionError, requests.Timeout,
                ConnectionError, TimeoutError)


def check_secrets(known):
    """Whether a new amphora could fetch its certificates."""
    needed = known.needs.secrets | known.needs.authorities
    if not needed:
        return finding.success()
    if known.secret_faults is None:
        return finding.not_checked(
            f'With several load balancers at once the certificate manager '
            f'is not asked for each of the {len(needed)} secrets: name this '
            f'one alone.')
    faults = known.secret_faults
    if not faults:
        return finding.success()
    listed = '; '.join(f'{ref} ({faults[ref].reason})'
                       for ref in sorted(faults))
    whose = {fault.whose for fault in faults.values()}
    for others in (finding.Whose.OPERATOR, finding.Whose.CLOUD):
        if others in whose:
            return finding.failure(
                f'The certificate manager gives no proper answer for '
                f'{listed}. See whether it and Keystone run, and '
                f'[certificates] and [service_auth] in octavia.conf.',
                others is finding.Whose.CLOUD, others)
    return finding.failure(
        f'The certificate manager does not hand out {listed}. A new amphora '
        f'would not have the listener: let the user of Octavia read it, or '
        f'let its owner set another one.', whose=finding.Whose.TENANT)


def read_faults(conf, project_id, needs):
    """Fetch all that a load balancer needs, like a worker.

    Nothing of it is kept. The managers have no time-out of their own; here it
    is ``[hmsync_image] image_timeout`` for all of them.

    :returns: {reference: facts.SecretFault}, of secrets that failed.
    """
    wanted = ([(ref, 'fetch_certificate') for ref in sorted(needs.secrets)] +
              [(ref, 'fetch_secret') for ref in sorted(needs.authorities)])
    if not wanted:
        return {}
    timeout = conf[image_conf.GROUP].image_timeout
    answers: dict = {}
    thread = threading.Thread(
        target=_fetch, args=(conf.certificates.cert_manager, project_id,
                             wanted, answers),
        name='hmsync-secrets', daemon=True)
    deadline = time.monotonic() + timeout
    thread.start()
    thread.join(max(0, deadline - time.monotonic()))
    late = facts.SecretFault(f'no answer within {timeout} s',
                             finding.Whose.CLOUD)
    return {ref: answers.get(ref, late) for ref, _function in wanted
            if answers.get(ref, late) is not None}


def _fetch(name, project_id, wanted, answers):
    """Put into answers why each cannot be fetched, or None."""
    try:
        # Imported late: it is slow, and few load balancers need it.
        from octavia_hmsync.compat import certificates
        manager = certificates.load_manager(name)
    except Exception as e:
        fault = facts.SecretFault(_describe(e), finding.Whose.OPERATOR)
        answers.update((ref, fault) for ref, _function in wanted)
        return
    for ref, function in wanted:
        try:
            getattr(certificates, function)(manager, project_id, ref)
            answers[ref] = None
        except Exception as e:  # Libraries of other services are below it.
            answers[ref] = facts.SecretFault(_describe(e), _whose(e))


def _describe(error):
    text = ' '.join(str(error).split()).rstrip('.')
    return f'{type(error).__name__}: {text}'[:_LENGTH]


def _whose(error):
    """Tell an error of the service from one of the secret.

    Octavia's managers wrap the errors of libraries.
    """
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        status = getattr(error, 'status_code', None) or getattr(
            error, 'http_status', None) or 0
        # Barbican's client has the status 401 only in its arguments.
        if (isinstance(error, _UNREACHABLE) or 401 in (status, *error.args) or
                status >= 500):
            return finding.Whose.CLOUD
        error = error.__cause__ or error.__context__
    return finding.Whose.TENANT

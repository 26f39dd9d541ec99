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

"""Whether the certificates of a load balancer can still be fetched."""

import threading
import time

from octavia_hmsync.image import conf as image_conf
from octavia_hmsync.image.preflight import finding

# An answer of a library may be long.
_LENGTH = 200


def check_secrets(facts):
    """Whether a new amphora could have its certificates."""
    needed = facts.needs.secrets | facts.needs.authorities
    if not needed:
        return finding.success()
    if facts.secret_faults is None:
        return finding.not_checked(
            f'Of several load balancers at once nobody asks the certificate '
            f'manager for each of the {len(needed)} secrets: name this one.')
    faults = facts.secret_faults
    if not faults:
        return finding.success()
    return finding.failure(
        f'The certificate manager does not hand out '
        f'{"; ".join(f"{ref} ({faults[ref]})" for ref in sorted(faults))}. A '
        f'new amphora would not have the listener: let the user of Octavia '
        f'read it, or have its owner set another one.')


def read_faults(conf, project_id, needs):
    """Fetch all that a load balancer needs, as a worker would.

    Nothing of it is kept. The managers have no time limit of their own; here
    it is ``[hmsync_image] image_timeout`` for all of them.

    :param conf: the oslo.config object that Octavia reads, parsed.
    :param project_id: whose load balancer it is.
    :param needs: facts.Needs.
    :returns: {reference: why it could not be fetched}.
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
    late = f'no answer within {timeout} s'
    return {ref: answers.get(ref, late) for ref, _function in wanted
            if answers.get(ref, late) is not None}


def _fetch(name, project_id, wanted, answers):
    """Note of each reference why it cannot be fetched, None if it can."""
    try:
        # Its import takes a moment, and few load balancers need it.
        from octavia_hmsync.compat import certificates
        manager = certificates.load_manager(name)
    except Exception as e:
        answers.update((ref, _describe(e)) for ref, _function in wanted)
        return
    for ref, function in wanted:
        try:
            getattr(certificates, function)(manager, project_id, ref)
            answers[ref] = None
        except Exception as e:  # Libraries of other services are below it.
            answers[ref] = _describe(e)


def _describe(error):
    text = ' '.join(str(error).split()).rstrip('.')
    return f'{type(error).__name__}: {text}'[:_LENGTH]

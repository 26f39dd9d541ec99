# SPDX-License-Identifier: Apache-2.0

"""The REST API, version 1: maps HTTP to vips.py."""

from collections import abc
import functools
import json
import typing

import flask
from oslo_log import log as logging
from werkzeug import exceptions as http_errors

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import probe_results as results_
from octavia_hmsync.distributor import restore
from octavia_hmsync.distributor import schemas
from octavia_hmsync.distributor import vips as vips_
from octavia_hmsync import exceptions
from octavia_hmsync import version

LOG = logging.getLogger(__name__)

# Bytes; a document with 256 members has 50 KiB, a transition with 20 000 pins
# less than this.
_LONGEST = 4 * 1024 * 1024

# {error: (status, code)}. Clients decide by the code what to do.
ERRORS: dict[type[Exception], tuple[int, str]] = {
    exceptions.InvalidDocument: (400, 'INVALID'),
    exceptions.UnknownVip: (404, 'UNKNOWN_VIP'),
    exceptions.VersionConflict: (409, 'VERSION_CONFLICT'),
    exceptions.StoreFailed: (500, 'STORE_FAILED'),
    exceptions.VswitchUnavailable: (503, 'VSWITCH_UNAVAILABLE'),
    exceptions.VipBusy: (503, 'BUSY'),
}
HTTP_CODES = {400: 'INVALID', 403: 'FORBIDDEN', 404: 'NOT_FOUND',
              405: 'METHOD_NOT_ALLOWED', 413: 'TOO_LONG', 415: 'NO_JSON'}

_Answer = tuple[typing.Any, int]


def create_app(vips: vips_.Vips, restorer: restore.Restorer,
               results: results_.Results, host: str,
               allowed_clients: typing.Collection[str] = (),
               get_expiry: abc.Callable[[], dict[str, float]] = dict,
               ) -> flask.Flask:
    """Make the application.

    :param allowed_clients: common names of certificates, in lower case; any
                            that TLS accepts if empty.
    :param get_expiry: tells when certificates end, see tls.read_expiry().
    """
    app = flask.Flask('octavia_hmsync.distributor', static_folder=None)
    app.config['MAX_CONTENT_LENGTH'] = _LONGEST
    app.json.sort_keys = False  # type: ignore[attr-defined]
    api = _API(vips, restorer, results, host, get_expiry)
    for method, path, function in (
            ('GET', '/', api.get_versions),
            ('GET', '/v1/status', api.get_status),
            ('GET', '/v1/probes', api.get_probes),
            ('GET', '/v1/traffic', api.get_traffic),
            ('GET', '/v1/vips', api.list_vips),
            ('GET', '/v1/vips/<vip_id>', api.get_vip),
            ('PUT', '/v1/vips/<vip_id>', api.put_vip),
            ('DELETE', '/v1/vips/<vip_id>', api.delete_vip),
            ('GET', '/v1/vips/<vip_id>/statistics', api.get_statistics),
            ('GET', '/v1/vips/<vip_id>/transition', api.get_transition),
            ('PUT', '/v1/vips/<vip_id>/transition', api.put_transition)):
        app.add_url_rule(path, function.__name__, function, methods=[method],
                         provide_automatic_options=False)
    app.before_request(functools.partial(
        _check_client, frozenset(name.lower() for name in allowed_clients)))
    app.register_error_handler(Exception, _answer_error)
    return app


class _API:

    def __init__(self, vips: vips_.Vips, restorer: restore.Restorer,
                 results: results_.Results, host: str,
                 get_expiry: abc.Callable[[], dict[str, float]]) -> None:
        self._vips = vips
        self._get_expiry = get_expiry
        self._restorer = restorer
        self._results = results
        self._host = host

    def get_versions(self) -> typing.Any:
        return {'software_version': version.version_string(),
                'host': self._host,
                'versions': [{'id': 'v1', 'status': 'CURRENT'}]}

    def get_status(self) -> typing.Any:
        health = self._restorer.get_health()
        all_vips = self._vips.list_all()
        known = [vip for vip in all_vips if vip.document]
        return {
            'host': self._host,
            'software_version': version.version_string(),
            'status': 'OFFLINE' if health.error else 'ONLINE',
            'vswitch_version': health.version,
            'error': health.error,
            'load': health.load,
            'vips': len(known),
            'active': sum(vip.document.active and not vip.has_left
                          for vip in known
                          if vip.document),
            'in_force': sum(vip.is_in_force for vip in known),
            'unknown': [vip.id for vip in all_vips if not vip.document],
            'certificates': self._get_expiry()}

    def get_probes(self) -> typing.Any:
        query = _read_query('run', 'after', 'timeout')
        run = query.get('run')
        news = self._results.read(
            run, _to_number(query, 'after', schemas.MAX_VERSION),
            _to_number(query, 'timeout', schemas.MAX_WAIT))
        return {'run': news.run, 'sequence': news.sequence,
                'whole': news.is_whole, 'probes': [
                    {'vip': result.vip_id, 'member': result.member_id,
                     **_show_probe(result)} for result in news.results]}

    def get_traffic(self) -> typing.Any:
        return {'vips': [{'id': vip_id, 'members': [
            {'id': member_id, **sent} for member_id, sent in members.items()]}
            for vip_id, members in self._vips.read_traffic().items()]}

    def list_vips(self) -> typing.Any:
        return {'vips': [self._summarize(vip)
                         for vip in self._vips.list_all()]}

    def get_vip(self, vip_id: str) -> typing.Any:
        vip = self._vips.get(doc.check_vip_id(vip_id))
        if vip.document is None:
            raise exceptions.UnknownVip(f'VIP {vip_id}: {vip.error}')
        counted = self._count(vip.id, vip.document)
        probed = self._results.get_of_vip(vip.id)
        for member in counted['members']:
            result = probed.get(member['id'])
            member['probe'] = _show_probe(result) if result else None
        change = self._vips.describe_change(vip.id)
        return {**self._summarize(vip), 'document': vip.document.to_dict(),
                **counted, 'change': change and {
                    'mappings': change['mappings'], 'one_by_one': [
                        member.id for member in vip.document.members
                        if member.mac in change['pinned']]}}

    def get_statistics(self, vip_id: str) -> typing.Any:
        vip = self._vips.get(doc.check_vip_id(vip_id))
        if vip.document is None:
            raise exceptions.UnknownVip(f'VIP {vip_id}: {vip.error}')
        return {'id': vip.id, 'version': vip.document.version,
                **self._count(vip.id, vip.document)}

    def put_vip(self, vip_id: str) -> typing.Any:
        doc.check_vip_id(vip_id)
        document = doc.parse(_read_json())
        changed = self._vips.put(vip_id, document)
        return {'id': vip_id, 'version': document.version,
                'changed': changed}

    def delete_vip(self, vip_id: str) -> typing.Any:
        doc.check_vip_id(vip_id)
        number = _read_query('version').get('version')
        self._vips.delete(vip_id, None if number is None
                          else doc.check_version(_to_int(number)))
        return '', 204

    def get_transition(self, vip_id: str) -> typing.Any:
        return self._vips.get_transition(doc.check_vip_id(vip_id))

    def put_transition(self, vip_id: str) -> typing.Any:
        doc.check_vip_id(vip_id)
        transition = doc.check_transition(_read_json())
        changed = self._vips.adopt(vip_id, transition)
        return {'id': vip_id, 'version': transition['version'],
                'changed': changed}

    def _summarize(self, vip: vips_.Summary) -> dict[str, typing.Any]:
        document = vip.document
        return {'id': vip.id,
                'version': document.version if document else None,
                'active': (document.active and not vip.has_left if document
                           else None),
                'has_left': vip.has_left,
                'probed': bool(document and document.probe),
                'in_force': vip.is_in_force, 'error': vip.error}

    def _count(self, vip_id: str,
               document: doc.Document) -> dict[str, typing.Any]:
        counted = self._vips.read_counters(vip_id, document)
        nothing = {'packets': 0, 'bytes': 0, 'pins': 0, 'connections': 0}
        return {'members': [
            {'id': member.id, 'slot': member.slot, 'state': member.state,
             **counted['members'].get(member.mac, nothing)}
            for member in document.members],
            'claims': counted['claims']}


def _show_probe(result: results_.Result) -> dict[str, typing.Any]:
    return {'state': result.state, 'error': result.error,
            'since': round(result.since, 3)}


def _read_query(*names: str) -> typing.Mapping[str, str]:
    unknown = sorted(set(flask.request.args) - set(names))
    if unknown:
        raise exceptions.InvalidDocument(
            f'the query has an unknown field {doc.show(unknown[0])}')
    return flask.request.args


def _to_number(query: typing.Mapping[str, str], name: str, most: int) -> int:
    value = _to_int(query.get(name, '0'))
    if not isinstance(value, int) or value > most:
        raise exceptions.InvalidDocument(
            f'{name}: {doc.show(value)} is not a whole number up to {most}')
    return value


def _to_int(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _read_json() -> object:
    request = flask.request
    if request.mimetype != 'application/json':
        raise http_errors.UnsupportedMediaType(
            'Content-Type must be application/json')
    try:
        # NaN and Infinity are not JSON, and no valid numbers here.
        return json.loads(request.get_data(), parse_constant=_refuse)
    except (ValueError, RecursionError) as e:
        raise exceptions.InvalidDocument(
            f'the document: is no JSON ({doc.show(str(e))})') from e


def _refuse(constant: str) -> typing.NoReturn:
    raise ValueError(f'{constant} is no JSON')


def _check_client(allowed: frozenset[str]) -> None:
    if not allowed:
        return
    names = get_common_names(flask.request.environ)
    if not allowed.intersection(name.lower() for name in names):
        shown = ', '.join(doc.show(name) for name in names) or 'no name'
        LOG.warning('%s was refused: its certificate has %s, which is not in '
                    '[hmsync_distributor] allowed_clients.',
                    flask.request.remote_addr, shown)
        raise http_errors.Forbidden(
            f'allowed_clients of this distributor lacks the common name of '
            f'the certificate, {shown}')


def get_common_names(environ: typing.Any) -> list[str]:
    """Return the common names in the client's certificate, by gunicorn."""
    certificate = environ['gunicorn.socket'].getpeercert()
    return [value for pairs in (certificate or {}).get('subject', ())
            for key, value in pairs if key == 'commonName']


def _answer_error(error: Exception) -> _Answer:
    body: dict[str, typing.Any] = {'error': str(error)}
    for kind, (status, code) in ERRORS.items():
        if isinstance(error, kind):
            body['code'] = code
            if isinstance(error, exceptions.VersionConflict):
                body['in_force'] = error.in_force
            if status >= 500:
                LOG.warning('%s %s is answered with %s: %s',
                            flask.request.method, flask.request.path, status,
                            error)
            return body, status
    if isinstance(error, http_errors.HTTPException):
        status = error.code or 500
        return {'error': error.description,
                'code': HTTP_CODES.get(status, 'HTTP')}, status
    LOG.exception('%s %s failed.', flask.request.method, flask.request.path)
    return {'error': 'the distributor failed; its log tells how',
            'code': 'FAILED'}, 500

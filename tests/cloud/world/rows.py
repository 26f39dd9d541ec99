# SPDX-License-Identifier: Apache-2.0

"""The table: load balancers as tenants have them, and how each is used.

A row makes what Octavia's API takes for one, and says how a client uses it::

    row = rows.find('tls')
    lb = row.add(places, 'SINGLE')
    with row.use(places, lb) as seen:
        ...
    seen.reports        # {what was asked for: a probe.Report}

Each address, and each listener that serves, is asked.
"""

import os

from tests.cloud.world import parts
from tests.cloud.world import row


def _near(places):
    return parts.make_members(*places.near)


def _names(*members):
    return [member.name for member in members]


def _http(places):
    return {'listeners': [parts.make_listener(parts.make_pool(_near(places)))]}


def _tls(places):
    # By the name that they are asked for; only with a certificate.
    return {'listeners': [parts.make_listener(
        parts.make_pool(_near(places)), 'TERMINATED_HTTPS', 443,
        default_tls_container_ref=places.tls_refs[0],
        sni_container_refs=places.tls_refs[1:],
        client_authentication='MANDATORY',
        client_ca_tls_container_ref=places.client_ca_ref)]}


def _use_tls(places):
    certs = places.certificates
    return [row.Use(name, how={
        'scheme': 'https', 'port': 443, 'host': name, 'rate': row.RATE / 2,
        'authority': certs.server_authority.certificate_path,
        'certificate': certs.client_path})
        for name in ('a.example', 'b.example')]


def _source_ip(places):
    return {'listeners': [parts.make_listener(
        parts.make_pool(_near(places), protocol='TCP',
                        healthmonitor=parts.make_monitor(type='TCP'),
                        session_persistence={'type': 'SOURCE_IP'}), 'TCP')]}


def _app_cookie(places):
    return {'listeners': [parts.make_listener(parts.make_pool(
        _near(places), session_persistence={
            'type': 'APP_COOKIE', 'cookie_name': 'session'}))]}


def _use_session(places):
    return [row.Use(how={'path': '/session', 'keeps_cookies': True,
                         'is_faithful': True})]


def _l7(places):
    def starts_with(value):
        return [{'type': 'PATH', 'compare_type': 'STARTS_WITH',
                 'value': value}]
    first, second = _near(places)
    return {'listeners': [parts.make_listener(
        parts.make_pool([first]), l7policies=[
            {'action': 'REDIRECT_TO_URL', 'rules': starts_with('/away'),
             'redirect_url': 'https://a.example/', 'redirect_http_code': 301},
            {'action': 'REDIRECT_PREFIX', 'rules': starts_with('/old'),
             'redirect_prefix': 'https://b.example'},
            {'action': 'REJECT', 'rules': starts_with('/secret')},
            {'action': 'REDIRECT_TO_POOL', 'rules': starts_with('/other'),
             'redirect_pool': parts.make_pool([second], name='other')}])]}


def _use_l7(places):
    first, second = places.near
    return [row.Use('default', how={'answers': _names(first)}),
            row.Use('pool', how={'path': '/other', 'answers': _names(second)}),
            row.Use('url', how={'path': '/away', 'status': 301,
                                'location': 'https://a.example/'}),
            row.Use('prefix', how={'path': '/old/x', 'status': 302,
                                   'location': 'https://b.example/old/x'}),
            row.Use('reject', how={'path': '/secret', 'status': 403})]


def _two_families(places):
    return {'listeners': [
        parts.make_listener(parts.make_pool(parts.make_members(
            *places.near, family=6, subnet_id=places.subnet6.id))),
        parts.make_listener(parts.make_pool(_near(places)), port=81)]}


def _tls_two_families(places):
    tls, = _tls(places)['listeners']
    return {'listeners': [tls, *_two_families(places)['listeners']]}


def _use_two_ports(places):
    return [row.Use('IPv6'), row.Use('IPv4', how={'port': 81})]


def _places(places):
    # One port each, so that none hides behind another one.
    return {'listeners': [
        parts.make_listener(parts.make_pool(parts.make_members(
            member, subnet_id=subnet.id)), port=port)
        for port, member, subnet in (
            (80, places.near[0], places.subnet),
            (81, places.second, places.second_subnet),
            (82, places.far, places.far_subnet))]}


def _use_places(places):
    return [row.Use(member.name, how={'port': port, 'answers': [member.name]})
            for port, member in ((80, places.near[0]), (81, places.second),
                                 (82, places.far))]


def _additional_vips(places):
    return {**_http(places),
            'additional_vips': [{'subnet_id': places.second_subnet.id}]}


def _use_additional_vips(places):
    return [row.Use('first'),
            row.Use('second',
                    lambda found: found.additional_vips[0]['ip_address'])]


def _ipv6_vip(places):
    return {'vip_subnet_id': places.subnet6.id, 'listeners': [
        parts.make_listener(parts.make_pool(parts.make_members(
            *places.near, family=6)))]}


def _udp(places):
    return {'listeners': [parts.make_listener(parts.make_pool(
        _near(places), protocol='UDP', healthmonitor=None), 'UDP')]}


def _find_ipvs():
    if not os.path.exists('/proc/net/ip_vs'):
        return 'the kernel has no IPVS (ip_vs), which forwards datagrams'
    return None


def _disabled(places):
    return {**_http(places), 'is_admin_state_up': False}


def _disabled_parts(places):
    off = {'admin_state_up': False}
    first, second = _near(places)
    return {'listeners': [
        parts.make_listener(parts.make_pool([first, {**second, **off}])),
        parts.make_listener(parts.make_pool(_near(places)), port=81, **off),
        parts.make_listener(parts.make_pool(_near(places), **off), port=82),
        parts.make_listener(parts.make_pool(
            _near(places), healthmonitor=parts.make_monitor(**off)),
            port=83)]}


def _use_disabled_parts(places):
    return [row.Use('one member', how={'answers': _names(places.near[0])}),
            row.Use('no pool', how={'port': 82, 'status': 503}),
            row.Use('no monitor', how={'port': 83})]


def _allowed_cidrs(places):
    return {'listeners': [parts.make_listener(
        parts.make_pool(_near(places)), allowed_cidrs=[
            f'{places.client.address}/32', '192.0.2.0/24'])]}


def _of_the_owner(places):
    return {**_http(places), 'vip_sg_ids': [places.add_security_group()],
            'vip_qos_policy_id': places.add_qos_policy()}


def _monitors(places):
    return {'listeners': [
        parts.make_listener(parts.make_pool(
            _near(places), healthmonitor=parts.make_monitor(1)), port=80),
        parts.make_listener(parts.make_pool(
            _near(places), healthmonitor=parts.make_monitor(3600)), port=81)]}


def _use_monitors(places):
    return [row.Use('each second'), row.Use('each hour', how={'port': 81})]


def _no_member(places):
    return {'listeners': [parts.make_listener(),
                          parts.make_listener(parts.make_pool([]), port=81)]}


def _use_no_member(places):
    return [row.Use('no pool', how={'status': 503}),
            row.Use('no member', how={'port': 81, 'status': 503})]


def _zone(places):
    return {**_http(places),
            'availability_zone': places.availability_zone}


ROWS = (
    row.Row('http', _http),
    row.Row('tls', _tls, _use_tls),
    # What a SINGLE one has in memory goes with it; a pair takes it along.
    row.Row('source-ip', _source_ip,
            lambda places: (row.Use(how={'is_faithful': True}),), (row.PAIR,)),
    row.Row('app-cookie', _app_cookie, _use_session, (row.PAIR,)),
    row.Row('source-ip-alone', _source_ip, topologies=(row.SINGLE,)),
    row.Row('app-cookie-alone', _app_cookie, topologies=(row.SINGLE,)),
    row.Row('l7', _l7, _use_l7),
    row.Row('two-families', _two_families, _use_two_ports),
    # For the short form, which has no time for more of SINGLE ones.
    row.Row('tls-two-families', _tls_two_families,
            lambda places: [*_use_tls(places), *_use_two_ports(places)],
            (row.SINGLE,)),
    row.Row('places', _places, _use_places),
    row.Row('additional-vips', _additional_vips, _use_additional_vips),
    row.Row('ipv6-vip', _ipv6_vip),
    row.Row('udp', _udp, lambda places: (row.Use(how={'scheme': 'udp'}),),
            lacks=_find_ipvs),
    row.Row('disabled', _disabled, lambda places: (), status='OFFLINE'),
    row.Row('disabled-parts', _disabled_parts, _use_disabled_parts),
    row.Row('allowed-cidrs', _allowed_cidrs),
    row.Row('of-the-owner', _of_the_owner),
    row.Row('monitors', _monitors, _use_monitors),
    row.Row('no-member', _no_member, _use_no_member),
    row.Row('flavor-and-zone', _zone, flavor={'amp_image_tag': 'amphora'}),
)


def find(name):
    """Return the Row of a name."""
    return next(each for each in ROWS if each.name == name)

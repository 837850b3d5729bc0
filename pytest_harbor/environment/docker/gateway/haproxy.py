"""The configuration of the proxy that judges names."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_harbor.environment.docker.gateway.dnsmasq import ENGINE_RESOLVER
from pytest_harbor.environment.docker.gateway.recipe import Place, Recipe

REFUSED = "harbor-refused"
"""First word of the log line of a refused connection; a name in hex and a port follow."""

# A plain `reject` comes last: conditions that wait for the end of the input would hold up
# every rule below them.
_COMMON = """\
global
  user haproxy
  group haproxy
  maxconn 1000
  nbthread 1
  log stdout format raw local0 info
defaults
  log global
  mode tcp
  maxconn 1000
  timeout connect 10s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
  timeout http-request 30s
  timeout http-keep-alive 1h
resolvers engine
  nameserver engine {resolver}:53
  accepted_payload_size 4096
  resolve_retries 3
  timeout resolve 1s
  timeout retry 1s
  hold valid 5s
  hold nx 1s
  hold refused 1s
  hold timeout 1s
  hold other 1s
backend direct
  server origin 0.0.0.0:0
backend plain
  server judge abns@harbor-{port} send-proxy-v2
frontend any
  bind {router}:{port}
  log-format "{refused} %[var(txn.verdict)] %[var(txn.name),hex] %[dst_port]"
  acl tls req.ssl_hello_type 1
  acl http req.proto_http
"""

_HTTP = """\
frontend requests
  mode http
  bind abns@harbor-{port} accept-proxy proto h1
  log-format "{refused} %[var(txn.verdict)] %[var(txn.name),hex] %[dst_port]"
  option http-server-close
  http-request set-var(txn.verdict) int({begin})
  http-request set-var(txn.name) req.hdr(host),field(1,:),lower,rtrim(.),bytes(0,253)
  # Who reads the header otherwise than it is read here must not find another name in it.
  acl some_host req.fhdr(host) -m found
  acl plain_host req.fhdr(host) -m reg -i ^[a-z0-9._-]+(:[0-9]{{1,5}})?$
{judge}\
"""


def haproxy_config(recipe: Recipe, place: Place, port: int) -> str:
    """Text of the configuration."""
    values = {"resolver": ENGINE_RESOLVER, "router": place.router, "refused": REFUSED, "port": port}
    tcp = _public_tcp(recipe) if recipe.public else _restricted_tcp(recipe)
    http = _public_http(recipe) if recipe.public else _restricted_http(recipe)
    return (
        _COMMON.format(**values)
        + tcp
        + _HTTP.format(begin=int(recipe.public), judge=http, **values)
    )


def _patterns(acl: str, names: Iterable[str]) -> list[str]:
    # Lines of one acl are alternatives; the length of one line is limited.
    lines = []
    for name in names:
        how = f"-m end {name[1:]}" if name.startswith("*.") else f"-m str {name}"
        lines.append(f"acl {acl} var(txn.name) {how}")
    return lines


def _verdict(recipe: Recipe, action: str, condition: str) -> list[str]:
    """Lines that leave 1 in the verdict if the name may be reached, 0 if not."""
    lines = _patterns("allowed", recipe.names) + _patterns("denied", recipe.denied_names)
    if recipe.names:
        lines.append(f"{action} set-var(txn.verdict) int(1) if {condition} allowed")
    if recipe.denied_names:
        lines.append(f"{action} set-var(txn.verdict) int(0) if {condition} denied")
    for number, end in enumerate(recipe.name_endpoints):
        lines.append(f"acl name_{number} var(txn.name) -m str {end.host}")
        lines.append(f"acl port_{number} dst_port {end.port}")
        lines.append(
            f"{action} set-var(txn.verdict) int(1) if {condition} name_{number} port_{number}"
        )
    return lines


_TCP = "tcp-request content"


def _tls_verdict(recipe: Recipe, *, unless_named: int) -> tuple[str, ...]:
    """Judges a TLS connection by its server name; ``unless_named`` where no list has it."""
    return (
        f"{_TCP} set-var(txn.verdict) int({unless_named}) if tls",
        f"{_TCP} set-var(txn.name) req.ssl_sni,lower,rtrim(.),bytes(0,253) if tls",
        *_verdict(recipe, _TCP, "tls"),
    )


def _restricted_tcp(recipe: Recipe) -> str:
    return _text(
        "tcp-request inspect-delay 5s",
        *_tls_verdict(recipe, unless_named=0),
        "acl good var(txn.verdict) -m int 1",
        f"{_TCP} reject if tls !good",
        f"{_TCP} do-resolve(txn.address,engine,ipv4) var(txn.name) if tls",
        "acl found var(txn.address) -m found",
        f"{_TCP} set-var(txn.verdict) int(0) if tls !found",
        f"{_TCP} reject if tls !found",
        f"{_TCP} set-dst var(txn.address) if tls",
        f"{_TCP} accept if tls",
        # The second judge writes the log line of a request.
        f"{_TCP} set-var(txn.verdict) int(2) if http",
        f"{_TCP} accept if http",
        f"{_TCP} set-var(txn.verdict) int(0)",
        f"{_TCP} reject",
        "use_backend direct if tls",
        "default_backend plain",
    )


def _restricted_http(recipe: Recipe) -> str:
    return _text(
        "acl one_host req.hdr_cnt(host) eq 1",
        "acl plain_path url_beg /",
        *_verdict(recipe, "http-request", ""),
        "acl good var(txn.verdict) -m int 1",
        "http-request set-var(txn.verdict) int(0) if METH_CONNECT || !one_host || !plain_path",
        "http-request set-var(txn.verdict) int(0) if !plain_host",
        "http-request deny deny_status 403 if !good",
        *_NO_H2C,
        "http-request do-resolve(txn.address,engine,ipv4) var(txn.name)",
        "acl found var(txn.address) -m found",
        "http-request set-var(txn.verdict) int(0) if !found",
        "http-request deny deny_status 502 if !found",
        "http-request set-dst var(txn.address)",
        "default_backend http_origin",
        *_HTTP_ORIGIN,
    )


# Two hex digits of a byte that a line of text may have.
_TEXT = "(?:0[9AD]|[2-6][0-9A-F]|7[0-9A-E])"

# Known beginnings that no server of HTTP or TLS takes for its own, whatever follows.
_SSH = r"^SSH-2\.0-[!-~]*(?: [!-~]*)?\r?\n"
_OTHER_TEXT = r"^(?:\*[0-9]+\r\n|[0-9a-f]{4}git-|@RSYNCD:)"

_SERVER_FIRST_PORTS = "21 22 25 110 119 143 587 873 3306 3690 5900"


def _public_tcp(recipe: Recipe) -> str:
    """Lets through what is judged, or cannot be read as HTTP or TLS; the rest may hide a name."""
    return _text(
        # A server that speaks first is waited for in vain so long.
        "tcp-request inspect-delay 2s",
        *_tls_verdict(recipe, unless_named=1),
        "acl bad var(txn.verdict) -m int 0",
        "acl named var(txn.name) -m len 1:253",
        f"{_TCP} reject if tls bad",
        f"{_TCP} accept if tls named",
        *_unnamed_tcp(),
        "use_backend plain if http",
        "default_backend direct",
    )


def _unnamed_tcp() -> tuple[str, ...]:
    return (
        # Each of these waits for no more bytes than it names.
        "acl ssh req.payload(0,8) -m str SSH-2.0-",
        f"acl ssh_line req.payload(0,0) -m reg '{_SSH}'",
        f"acl other_text req.payload(0,8) -m reg '{_OTHER_TEXT}'",
        # 14 to 18 are TLS records; some servers take others before the hello.
        f"acl binary req.payload(0,1),hex -m reg '^(?!{_TEXT}|1[4-8])'",
        f"acl binary req.payload(0,4),hex -m reg '^{_TEXT}{{1,3}}(?!{_TEXT})..'",
        "acl silent req.len 0",
        f"acl server_first dst_port {_SERVER_FIRST_PORTS}",
        f"{_TCP} accept if !tls ssh ssh_line",
        f"{_TCP} set-var(txn.verdict) int(2) if !tls http",
        f"{_TCP} accept if !tls http",
        f"{_TCP} accept if !tls binary",
        f"{_TCP} accept if !tls other_text",
        f"{_TCP} accept if server_first silent",
        # What said no name is told of by its address.
        f"{_TCP} set-var(txn.verdict) int(0)",
        f"{_TCP} set-var(txn.address) dst",
        f"{_TCP} set-var(txn.name) str(),concat(,txn.address)",
        f"{_TCP} reject",
    )


def _public_http(recipe: Recipe) -> str:
    in_url = [
        f"acl denied_url url -m sub -i {name.removeprefix('*.')}" for name in recipe.denied_names
    ]
    return _text(
        "acl many_hosts req.hdr_cnt(host) gt 1",
        "acl plain_path url_beg /",
        *in_url,
        *_verdict(recipe, "http-request", ""),
        "acl bad var(txn.verdict) -m int 0",
        "http-request set-var(txn.verdict) int(0) if many_hosts || some_host !plain_host",
        "http-request set-var(txn.verdict) int(0) if !plain_path denied_url",
        "http-request deny deny_status 403 if bad",
        *_NO_H2C,
        "default_backend http_origin",
        *_HTTP_ORIGIN,
    )


_NO_H2C = (
    "acl h2c req.hdr(upgrade) -m sub -i h2c",
    "http-request del-header Upgrade if h2c",
    "http-request del-header HTTP2-Settings",
)

_HTTP_ORIGIN = ("backend http_origin", "mode http", "http-reuse never", "server origin 0.0.0.0:0")


def _text(*lines: str) -> str:
    return "".join(f"{'' if line.startswith('backend') else '  '}{line}\n" for line in lines)

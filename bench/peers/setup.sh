#!/bin/sh
# Fetch peers into $PEERS_HOME (default: flo-peers in the temporary folder), and start nothing.
#   sh bench/peers/setup.sh [redis taskiq huey restate celery flo]
# It needs python3 with venv; for restate also npm, for redis apt-get, unless it is installed.
set -eu
PEERS_HOME="${PEERS_HOME:-${TMPDIR:-/tmp}/flo-peers}"
ROOT="$(cd "$(dirname "$0")/../.." && pwd)"
mkdir -p "$PEERS_HOME/venv" "$PEERS_HOME/npm" "$PEERS_HOME/deb"

venv() {
  name="$1"; shift
  [ -x "$PEERS_HOME/venv/$name/bin/python" ] || python3 -m venv "$PEERS_HOME/venv/$name"
  "$PEERS_HOME/venv/$name/bin/python" -m pip install -q --disable-pip-version-check "$@"
}

for peer in ${@:-redis taskiq huey restate celery flo}; do
  case "$peer" in
    redis)  # unpacked, not installed: no service is registered or started
      command -v redis-server >/dev/null || ( cd "$PEERS_HOME/deb"
        apt-get download redis-server redis-tools libjemalloc2 liblua5.1-0 liblzf1 libatomic1
        for package in *.deb; do dpkg -x "$package" root; done ) ;;
    taskiq) venv taskiq taskiq taskiq-redis hiredis uvloop ;;
    huey) venv huey huey ;;
    celery) venv celery "celery[redis]" hiredis ;;
    restate)
      ( cd "$PEERS_HOME/npm" && npm install --silent --no-fund --no-audit @restatedev/restate-server )
      venv restate "restate-sdk[serde]" hypercorn httpx aiohttp ;;
    flo) venv flo "$ROOT" ;;
    *) echo "no such peer: $peer" >&2; exit 1 ;;
  esac
  echo "ready: $peer"
done

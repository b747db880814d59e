#!/usr/bin/env bash
# Throughput of the service, on an otherwise idle machine: reads, creates, one huge upload, idle connections.
# Needs wrk, curl, jq and python3. Usage: benches/service.sh [SECONDS]; AURICLE_BIN names the program.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-30}"
auricle="${AURICLE_BIN:-target/release/auricle}"
data="$(mktemp -d)"
serve() {
  rm -f "$data/out"
  "$auricle" serve --data "$data" --device cpu --listen 127.0.0.1:0 --storage-listen 127.0.0.1:0 \
    --dashboard-listen 127.0.0.1:0 "$@" > "$data/out" 2> "$data/err" &
  server=$!
  until grep -qs ^curl "$data/out"; do kill -0 "$server" || { cat "$data/err"; exit 1; }; sleep 0.1; done
  url="$(awk '$1 == "api" { print $2 }' "$data/out")"
}
stop() { kill "$server" && wait "$server" || true; }
trap 'kill "$server" 2>/dev/null || true; rm -rf "$data"' EXIT
memory() { awk '/^Vm(RSS|HWM)/ { print "  " $1, $2 / 1024, "MB" }' "/proc/$server/status"; }
export AURICLE_REQUEST_LIMIT=1000000000 AURICLE_FREE_CREDIT_CENTS=100000000
serve
key="$(awk '$1 == "key" { print $2 }' "$data/out")"
auth="Authorization: Bearer $key"
json='Content-Type: application/json'

upload() { # file
  curl -sSf "$url/v2/uploads/sign" -H "$auth" -H "$json" -d '{"filename": "a.flac", "content_type": "audio/flac"}' > "$data/signed"
  curl -sSf -o /dev/null -T "$1" -H 'Content-Type: audio/flac' "$(jq -r .url "$data/signed")"
  curl -sSf -o /dev/null -X POST "$url/v2/uploads/$(jq -r .upload_id "$data/signed")/complete" -H "$auth"
  jq -r .upload_id "$data/signed"
}
upload_id="$(upload models/samples/jfk.flac)"
create() { curl -sSf "$url/v2/transcripts" -H "$auth" -H "$json" -d "{\"upload_id\": \"$upload_id\"}" | jq -r .id; }
id="$(create)"
until curl -sSf "$url/v2/transcripts/$id" -H "$auth" | jq -e '.status == "completed"' > /dev/null; do sleep 0.2; done

echo "== GET /v2/transcripts/{id}, 64 connections, $seconds s"
wrk -t1 -c64 -d"${seconds}s" --latency -H "$auth" "$url/v2/transcripts/$id" | grep -E 'Requests/sec|50%|99%|Non-2xx' || true
echo "== GET /health/live, the same: what HTTP alone costs"
wrk -t1 -c64 -d"${seconds}s" --latency "$url/health/live" | grep -E 'Requests/sec|50%|99%|Non-2xx' || true
stop

echo "== POST /v2/transcripts, 64 connections, $seconds s, no worker"
serve --role api
cat > "$data/create.lua" <<LUA
wrk.method = "POST"
wrk.body = '{"upload_id": "$upload_id"}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer $key"
LUA
wrk -t1 -c64 -d"${seconds}s" --latency -s "$data/create.lua" "$url/v2/transcripts" \
  | tee "$data/created" | grep -E 'Requests/sec|requests in|50%|99%|Non-2xx' || true
echo "  stored: $(curl -sSf "$url/v2/transcripts?limit=1" -H "$auth" | jq .total) (one was there before; wrk may leave up to 64 answers unread)"
stop

echo "== 2,000 idle connections, no model"
ulimit -n 8192
serve --role api
memory
python3 - "$url" <<'PY'
import socket, sys, time, urllib.parse
at = urllib.parse.urlparse(sys.argv[1])
request = b"GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
sockets = []
for _ in range(2000):
    s = socket.create_connection((at.hostname, at.port))
    s.sendall(request)
    assert s.recv(4096).startswith(b"HTTP/1.1 200")
    sockets.append(s)
time.sleep(1)
time.sleep(3)
PY
memory
stop

echo "== PUT of 5 GiB"
serve --role api
memory
curl -sSf "$url/v2/uploads/sign" -H "$auth" -H "$json" -d '{"filename": "a.wav", "content_type": "audio/wav"}' > "$data/signed"
head -c 5368709120 /dev/zero | curl -sSf -o /dev/null -w '  %{time_total} s\n' -T - \
  -H 'Content-Type: audio/wav' "$(jq -r .url "$data/signed")"
curl -sSf -X POST "$url/v2/uploads/$(jq -r .upload_id "$data/signed")/complete" -H "$auth" | jq -c '{status, size_bytes}'
memory

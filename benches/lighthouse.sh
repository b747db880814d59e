#!/usr/bin/env bash
# Lighthouse's scores of the dashboard's pages, on an otherwise idle machine: `benches/lighthouse.sh [RUNS [large]]`; medians of so many
# runs [3]. With `large` the account has 50,000 transcripts more, and the transcript is one of two hours, really transcribed.
# Needs Node, npm, Chromium, curl and jq, with `large` ffmpeg and Python, and the program; AURICLE_BIN names it. AURICLE_LIGHTHOUSE names
# a folder that keeps Lighthouse.
set -euo pipefail
cd "$(dirname "$0")/.."
runs="${1:-3}"
size="${2:-}"
auricle="${AURICLE_BIN:-target/release/auricle}"
data="$(mktemp -d)"
tool="${AURICLE_LIGHTHOUSE:-$data/lighthouse}"
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$data"' EXIT
[ -d "$tool/node_modules/lighthouse" ] || npm install --silent --no-audit --no-fund --prefix "$tool" lighthouse@13.5.0
CHROME_PATH="${CHROME_PATH:-$(command -v chromium chromium-browser google-chrome | head -n 1)}"
export CHROME_PATH

"$auricle" serve --data "$data/service" --device cpu --listen 127.0.0.1:0 --storage-listen 127.0.0.1:0 --dashboard-listen 127.0.0.1:0 \
  > "$data/out" 2> "$data/err" &
server=$!
until grep -qs ^curl "$data/out"; do kill -0 "$server" || { cat "$data/err"; exit 1; }; sleep 0.1; done
line() { awk -v name="$1" '$1 == name { print $2 }' "$data/out"; }
api="$(line api)" dashboard="$(line dashboard)" welcome="$(line sign-in)" auth="Authorization: Bearer $(line key)"

page="$(curl -sSf -c "$data/cookies" "$welcome")"
form_token="$(sed -n 's/.*name="form_token" value="\([^"]*\)".*/\1/p' <<< "$page" | head -n 1)"
curl -sSf -o /dev/null -b "$data/cookies" -c "$data/cookies" "$welcome" -H "Origin: $dashboard" \
  --data-urlencode "form_token=$form_token" --data-urlencode "email=admin@localhost" --data-urlencode "password=$(openssl rand -hex 16)"
cookie="$(awk 'NF >= 7 { printf "%s%s=%s", sep, $6, $7; sep = "; " }' "$data/cookies")"

recording=models/samples/jfk.flac
if [ "$size" = large ]; then
  recording="$data/two-hours.flac"
  ffmpeg -loglevel error -stream_loop -1 -i models/samples/jfk.flac -t 7200 -ac 1 -ar 16000 "$recording"
fi
curl -sSf "$api/v2/uploads/sign" -H "$auth" -H 'Content-Type: application/json' \
  -d '{"filename": "a.flac", "content_type": "audio/flac"}' > "$data/signed"
curl -sSf -o /dev/null -T "$recording" -H 'Content-Type: audio/flac' "$(jq -r .url "$data/signed")"
curl -sSf -o /dev/null -X POST "$api/v2/uploads/$(jq -r .upload_id "$data/signed")/complete" -H "$auth"
id="$(curl -sSf "$api/v2/transcripts" -H "$auth" -H 'Content-Type: application/json' \
  -d "{\"upload_id\": $(jq .upload_id "$data/signed")}" | jq -r .id)"
until curl -sSf "$api/v2/transcripts/$id" -H "$auth" | jq -e '.status == "completed"' > /dev/null; do sleep 0.2; done
if [ "$size" = large ]; then
  # Copies of a finished transcript, without its words, each a second older.
  python3 - "$data/service/auricle.db" <<'PYTHON'
import sqlite3
import sys

database = sqlite3.connect(sys.argv[1], timeout=60)
columns = [row[1] for row in database.execute("PRAGMA table_info(transcripts)")]
taken = {"id": "'tr_' || printf('%026d', n)", "created_at": "created_at - n * 1000", "words": "NULL"}
values = ", ".join(taken.get(column, column) for column in columns)
database.execute(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 50000) "
    f"INSERT INTO transcripts ({', '.join(columns)}) SELECT {values} FROM numbers, (SELECT * FROM transcripts LIMIT 1)"
)
database.commit()
PYTHON
fi

# The median of each category over the runs.
score() { # page, cookie
  local headers
  headers="$(jq -n --arg cookie "$2" 'if $cookie == "" then {} else {Cookie: $cookie} end')"
  for run in $(seq "$runs"); do
    "$tool/node_modules/.bin/lighthouse" "$dashboard$1" --quiet --output json --output-path "$data/report-$run.json" \
      --only-categories performance,accessibility,best-practices --preset desktop --extra-headers "$headers" \
      --chrome-flags="--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage" > /dev/null
    [ -z "${AURICLE_REPORTS:-}" ] || cp "$data/report-$run.json" "$AURICLE_REPORTS/$3-$run.json"
  done
  jq -s -r --arg name "$3" 'def median(f): map(f * 100 | round) | sort | .[length / 2 | floor];
    if any(.[]; .finalDisplayedUrl | test("login")) and $name != "login" then error("not signed in") else . end
    | "| \($name) | \(median(.categories.performance.score)) | \(median(.categories.accessibility.score)) | \(median(.categories["best-practices"].score)) | \(median(.audits["largest-contentful-paint"].numericValue / 100)) | \(median(.audits.interactive.numericValue / 100)) |"' "$data"/report-*.json
}
echo "| Page | Performance | Accessibility | Best practices | Largest paint, ms | Interactive, ms |"
echo "|---|---|---|---|---|---|"
score /login "" login
score /transcripts "$cookie" list
score "/transcripts/$id" "$cookie" transcript
score /playground "$cookie" playground
score /playground/live "$cookie" live

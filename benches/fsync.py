#!/usr/bin/env python3
"""The cost of `fsync`: creates of a transcript and an upload, with it and without. Usage: benches/fsync.py [PROGRAM]"""

import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import urlsplit

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "target/release/auricle"
SETTINGS = {"ROLE": "api", "REQUEST_LIMIT": "1000000000", "FREE_CREDIT_CENTS": "100000000"}
LISTENERS = ["--listen", "--storage-listen", "--dashboard-listen"]
BODY = json.dumps({"audio_url": "https://example.org/a.wav"})


def measure(fsync):
    # Not in a temporary folder, which may be in memory.
    data = tempfile.mkdtemp(dir=".")
    variables = {f"AURICLE_{name}": value for name, value in (SETTINGS | {"FSYNC": fsync}).items()}
    addresses = [part for flag in LISTENERS for part in (flag, "127.0.0.1:0")]
    command = [PROGRAM, "serve", "--device", "cpu", "--data", data, *addresses]
    service = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | variables
    )
    shown = {}
    for line in service.stdout:
        if line.startswith("curl"):
            break
        shown |= dict([line.split()]) if len(line.split()) == 2 else {}
    host = urlsplit(shown["api"]).netloc
    headers = {"Authorization": f"Bearer {shown['key']}", "Content-Type": "application/json"}

    def post(connection, path, body):
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text
        return json.loads(text)

    def create(count, times):
        connection = http.client.HTTPConnection(host)
        for _ in range(count):
            begin = time.perf_counter()
            post(connection, "/v2/transcripts", BODY)
            times.append(time.perf_counter() - begin)

    alone = []
    create(400, alone)
    alone.sort()
    begin = time.perf_counter()
    clients = [threading.Thread(target=create, args=(100, [])) for _ in range(32)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    rate = 3200 / (time.perf_counter() - begin)
    file, puts = os.urandom(100 << 20), []
    for _ in range(3):
        signed = post(http.client.HTTPConnection(host), "/v2/uploads/sign", '{"filename":"a.wav","content_type":"audio/wav"}')
        url = urlsplit(signed["url"])
        connection = http.client.HTTPConnection(url.netloc)
        begin = time.perf_counter()
        connection.request("PUT", f"{url.path}?{url.query}", file, signed["headers"])
        assert connection.getresponse().status == 200
        puts.append(time.perf_counter() - begin)
    service.kill()
    service.wait()
    shutil.rmtree(data)
    print(
        f"fsync={fsync}: a create alone {alone[200] * 1e3:.2f} ms (p99 {alone[396] * 1e3:.2f} ms), "
        f"32 clients {rate:.0f}/s, a PUT of 100 MiB {sorted(puts)[1]:.2f} s",
        flush=True,
    )


for fsync in ["true", "false"] * 2:
    measure(fsync)

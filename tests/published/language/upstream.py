"""The service with another maker's server as its language model: llama.cpp's own, of the package `xllamacpp`, with SmolLM2.

Holds answers, streams, tokens, JSON Schemas, a question about a transcript and a refusal to what that server says itself.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import jsonschema
import xllamacpp

from compare import published

ROOT = Path(__file__).parents[3]
CONTEXT = 2048
MESSAGES = [{"role": "user", "content": "Name three things that a bakery sells."}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "people"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}


def post(url: str, body: dict | None, key: str = "", method: str = "POST", data: bytes | None = None, kind: str = "application/json"):
    """Status and body of a request."""
    headers = {"content-type": kind} | ({"authorization": f"Bearer {key}"} if key else {})
    sent = json.dumps(body).encode() if body is not None else data
    try:
        with urllib.request.urlopen(urllib.request.Request(url, sent, headers, method=method)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def events(text: str) -> list[dict]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", lines[-1]
    return [json.loads(line) for line in lines[:-1]]


class Service:
    """A service on this machine that asks a server."""

    def __init__(self, program: Path, data: Path, upstream: str):
        listen = [f"--{name}={'127.0.0.1:0'}" for name in ("listen", "storage-listen", "dashboard-listen")]
        settings = {
            "AURICLE_LANGUAGE_UPSTREAM": upstream,
            "AURICLE_LANGUAGE_MODEL": "smollm2",
            "AURICLE_LANGUAGE_CONTEXT_TOKENS": str(CONTEXT),
        }
        command = ["env", *(f"{name}={value}" for name, value in settings.items()), str(program), "serve", f"--data={data}", "--device=cpu"]
        self.process = subprocess.Popen(command + listen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
        self.lines: dict[str, str] = {}
        for line in self.process.stdout:
            name, _, rest = line.strip().partition(" ")
            self.lines[name] = rest.strip()
            if name == "curl":
                break

    def ask(self, path: str, body: dict | None, method: str = "POST"):
        return post(self.lines["api"] + path, body, self.lines["key"], method)

    def transcript(self, file: Path) -> str:
        _, signed = self.ask("/v2/uploads/sign", {"filename": file.name, "content_type": "audio/flac"})
        signed = json.loads(signed)
        assert post(signed["url"], None, method="PUT", data=file.read_bytes(), kind="audio/flac")[0] in (200, 204)
        self.ask(f"/v2/uploads/{signed['upload_id']}/complete", {})
        made = json.loads(self.ask("/v2/transcripts", {"upload_id": signed["upload_id"]})[1])
        for _ in range(600):
            state = json.loads(self.ask(f"/v2/transcripts/{made['id']}", None, "GET")[1])
            if state["status"] in ("completed", "error"):
                assert state["status"] == "completed", state
                return made["id"]
            time.sleep(0.2)
        raise TimeoutError("the transcript is not done after two minutes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True, help="the program auricle")
    arguments = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.port, params.verbosity = str(published()), CONTEXT, 1, 0, 0
    params.use_jinja = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(params)
    upstream = f"{server.listening_address}/v1"
    failed: list[str] = []

    def check(what: str, good: bool, found: object = "") -> None:
        print(("good: " if good else "WRONG: ") + what + ("" if good else f": {found}"))
        if not good:
            failed.append(what)

    with tempfile.TemporaryDirectory() as data:
        service = Service(arguments.program, Path(data) / "data", upstream)
        try:
            greedy = {"messages": MESSAGES, "temperature": 0, "max_tokens": 40}
            theirs = json.loads(post(f"{upstream}/chat/completions", greedy)[1])
            text = theirs["choices"][0]["message"]["content"]
            status, ours = service.ask("/v2/llm/chat-completions", greedy)
            ours = json.loads(ours)
            check("a greedy answer is the server's", status == 200 and ours["choices"][0]["message"]["content"] == text, ours)
            check("its tokens are the server's", ours.get("usage") == {name: theirs["usage"][name] for name in ours.get("usage", {"": 0})}, ours)
            check("the end has a reason", ours["choices"][0]["finish_reason"] == theirs["choices"][0]["finish_reason"], ours)
            check("the model is named", ours["model"] == "smollm2", ours["model"])

            status, streamed = service.ask("/v2/llm/chat-completions", greedy | {"stream": True})
            pieces = [event["choices"][0]["delta"].get("content") or "" for event in events(streamed) if event["choices"]]
            check("a stream comes in pieces and says the same", len(pieces) > 10 and "".join(pieces) == text, pieces)

            held = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
            asked = {"messages": [{"role": "user", "content": "Describe a city."}], "response_format": held, "temperature": 0}
            status, answer = service.ask("/v2/llm/chat-completions", asked | {"max_tokens": 60})
            content = json.loads(answer)["choices"][0]["message"]["content"] if status == 200 else answer
            try:
                jsonschema.validate(json.loads(content), SCHEMA)
                check("an answer is held to a JSON Schema", True)
            except (ValueError, jsonschema.ValidationError) as error:
                check("an answer is held to a JSON Schema", False, (content, error))

            # The template of this model knows no tools, and the server then writes a text.
            forced = {"messages": [{"role": "user", "content": "Say yes."}], "tools": [TOOL], "tool_choice": "required", "temperature": 0}
            status, answer = service.ask("/v2/llm/chat-completions", forced | {"max_tokens": 600})
            check("a tool that is demanded and not called is an error", status == 502 and "called no tool" in answer, (status, answer))

            long = {"messages": [{"role": "user", "content": "word " * 4000}], "max_tokens": 16}
            status, answer = service.ask("/v2/llm/chat-completions", long)
            check("a conversation beyond the context is 422", status == 422, (status, answer))

            sound = service.transcript(ROOT / "models/samples/jfk.flac")
            question = {"transcript_id": sound, "prompt": "What does the speaker ask his fellow Americans?"}
            status, answer = service.ask("/v2/speech-understanding", question)
            understood = json.loads(answer)
            check("a question about a transcript is answered", status == 200 and len(understood["response"]) > 10, answer)
            print("  ", understood.get("response"))
            status, grounded = service.ask("/v2/llm/chat-completions", greedy | {"transcript_id": sound})
            used = json.loads(grounded)["usage"]["prompt_tokens"]
            check("a transcript goes to the server", used > ours["usage"]["prompt_tokens"] + 20, grounded)

            del server
            status, answer = service.ask("/v2/llm/chat-completions", greedy)
            check("a server that is gone is 502", status == 502, (status, answer))
        finally:
            service.process.terminate()
            service.process.wait()
    print("\n".join(failed) if failed else "good")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

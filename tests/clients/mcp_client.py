"""Uses a service through the official package of the Model Context Protocol.

Usage: mcp_client.py http RECORDING_URL | stdio PROGRAM RECORDING FOLDER, with the address and a key of the service in AURICLE_URL and
AURICLE_KEY, and the way of agreeing on a version in MCP_MODE: auto or legacy. Prints one JSON object.
"""

import asyncio
import base64
import io
import json
import os
import sys
import wave

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

URL, KEY, MODE = os.environ["AURICLE_URL"], os.environ["AURICLE_KEY"], os.environ["MCP_MODE"]


def text(result):
    return result.content[0].text


async def transcripts(client, made):
    """What both ways of speaking have in common."""
    transcript = made.structured_content["id"]
    listed = await client.call_tool("list_transcripts", {"limit": 100})
    hits = await client.call_tool("search_transcripts", {"phrases": ["fellow americans", "ask"], "transcript_ids": [transcript]})
    asked = await client.call_tool(
        "ask_transcripts", {"question": "What can you do for your country?", "transcript_ids": [transcript]}
    )
    resources = await client.list_resources()
    templates = await client.list_resource_templates()
    uri = f"auricle://transcripts/{transcript}"
    found = {
        "made": [made.structured_content["status"], text(made)],
        "tools": [tool.name for tool in (await client.list_tools()).tools],
        "read_only": [tool.name for tool in (await client.list_tools()).tools if tool.annotations.read_only_hint],
        "destructive": [tool.name for tool in (await client.list_tools()).tools if tool.annotations.destructive_hint],
        "is_listed": transcript in [one["id"] for one in listed.structured_content["transcripts"]],
        "hits": hits.structured_content["hits"],
        "hits_text": text(hits),
        "answer": asked.structured_content["answers"][0],
        "part": text(await client.call_tool("get_transcript", {"transcript_id": transcript, "from_seconds": 1000})),
        "has_resource": uri in [str(resource.uri) for resource in resources.resources],
        "template": templates.resource_templates[0].uri_template,
        "resource": (await client.read_resource(uri)).contents[0].text,
        "instructions": client.instructions,
        "errors": {},
    }
    for name, arguments in [
        ("get_transcript", {"transcript_id": "tr_none"}),
        ("get_transcript", {"transcript_id": transcript, "form": "short"}),
        ("search_transcripts", {"phrases": ["one two three four five six"]}),
        ("ask_transcripts", {"question": "Why?"}),
        ("list_transcripts", {"cursor": "odd"}),
    ]:
        refused = await client.call_tool(name, arguments)
        found["errors"].setdefault(name, []).append([refused.is_error, text(refused)])
    for key, call in [
        ("tool", client.call_tool("delete_transcript", {"transcript_id": transcript})),
        ("resource", client.read_resource("auricle://transcripts/tr_none")),
    ]:
        try:
            await call
        except MCPError as error:
            found["errors"][key] = [error.error.code, error.error.message]
    return found


async def over_http(recording):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=120) as http:
        async with Client(streamable_http_client(f"{URL}/mcp", http_client=http), mode=MODE) as client:
            made = await client.call_tool("transcribe", {"url": recording, "title": "An address", "wait_seconds": 100})
            found = await transcripts(client, made)
            said = (await client.call_tool("speak", {"text": "Good morning."})).content[0]
            with wave.open(io.BytesIO(base64.b64decode(said.data))) as sound:
                found["sound"] = [said.type, said.mime_type, sound.getframerate(), sound.getnframes()]
            return found


async def over_stdio(program, recording, folder):
    server = StdioServerParameters(command=program, args=["mcp", "--url", URL], env={"AURICLE_KEY": KEY})
    async with Client(stdio_client(server), mode=MODE) as client:
        made = await client.call_tool("transcribe_file", {"path": recording, "wait_seconds": 100})
        found = await transcripts(client, made)
        path = os.path.join(folder, "morning.wav")
        found["wrote"] = text(await client.call_tool("speak", {"text": "Good morning.", "path": path}))
        with wave.open(path) as sound:
            found["sound"] = [sound.getframerate(), sound.getnframes()]
        again = await client.call_tool("speak", {"text": "Good night.", "path": path})
        missing = await client.call_tool("transcribe_file", {"path": os.path.join(folder, "none.wav")})
        found["files"] = [[one.is_error, text(one)] for one in (again, missing)]
        return found


way = over_http if sys.argv[1] == "http" else over_stdio
print(json.dumps(asyncio.run(way(*sys.argv[2:]))))

"""Uses a service through OpenAI's own package, of which only the base URL and the key are set.

Usage: openai_client.py recognise FILE | chat | speak, with OPENAI_BASE_URL and OPENAI_API_KEY. Prints one JSON object.
"""

import json
import sys

import openai


def recognise(path):
    client = openai.OpenAI()
    found = {"models": [model.id for model in client.models.list()]}
    found["model"] = client.models.retrieve("svc-best").id

    def transcribe(model="whisper-1", **options):
        with open(path, "rb") as file:
            return client.audio.transcriptions.create(file=file, model=model, **options)

    found["text"] = transcribe().text
    verbose = transcribe(response_format="verbose_json", timestamp_granularities=["word", "segment"], language="en")
    found["words"] = [[word.word, word.start, word.end] for word in verbose.words]
    found["segments"] = [segment.text for segment in verbose.segments]
    found["duration"] = verbose.duration
    for name in ["text", "srt", "vtt"]:
        found["as_" + name] = transcribe(response_format=name)
    deltas, done = [], None
    for event in transcribe(stream=True):
        if event.type == "transcript.text.delta":
            deltas.append(event.delta)
        else:
            done = event.text
    found["deltas"], found["done"] = deltas, done
    errors = {}
    for name, call in {
        "model": lambda: transcribe(model="gpt-9"),
        "format": lambda: transcribe(response_format="xml"),
        "missing": lambda: client.models.retrieve("gpt-9"),
        "key": lambda: openai.OpenAI(api_key="svc_wrong").models.list(),
    }.items():
        try:
            call()
        except openai.APIStatusError as error:
            errors[name] = [type(error).__name__, error.status_code, error.code]
    found["errors"] = errors
    return found


def chat():
    client = openai.OpenAI(max_retries=0)
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    answer = client.chat.completions.create(model="their-model", messages=messages)
    found = {"text": answer.choices[0].message.content, "tokens": answer.usage.total_tokens, "object": answer.object}
    stream = client.chat.completions.create(
        model="their-model", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    found["streamed"] = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    found["streamed_tokens"] = chunks[-1].usage.total_tokens
    try:
        client.chat.completions.create(model="gpt-9", messages=messages)
    except openai.NotFoundError as error:
        found["error"] = error.code
    return found


def speak():
    client = openai.OpenAI(max_retries=0)

    def say(text="Good morning.", **options):
        return client.audio.speech.create(model="tts-1", input=text, **options)

    found = {"pcm": len(say(voice="alloy", response_format="pcm").read())}
    wav = say(voice="zed", response_format="wav", speed=0.5).read()
    found["wav"], found["riff"] = len(wav), wav[:4].decode()
    with client.audio.speech.with_streaming_response.create(
        model="voice-tiny", input="Good morning.", voice="alloy", response_format="pcm"
    ) as response:
        found["streamed"] = sum(len(part) for part in response.iter_bytes())
        found["type"] = response.headers["content-type"]
    errors = {}
    for name, call in {
        "voice": lambda: say(voice="siri", response_format="pcm"),
        "model": lambda: client.audio.speech.create(model="gpt-9", input="Hi", voice="alloy"),
        "nothing": lambda: say(text="...", voice="alloy", response_format="pcm"),
    }.items():
        try:
            call()
        except openai.APIStatusError as error:
            errors[name] = [type(error).__name__, error.status_code, error.code]
    found["errors"] = errors
    return found


COMMANDS = {"recognise": recognise, "chat": chat, "speak": speak}
print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))

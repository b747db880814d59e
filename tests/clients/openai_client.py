"""Uses a service through OpenAI's own package, of which only the base URL and the key are set.

Usage: openai_client.py recognise FILE | diarize TALK CLIP NAME | chat | speak | listen PCM | talk PCM, with OPENAI_BASE_URL and OPENAI_API_KEY. Prints one JSON object.
"""

import base64
import json
import sys
import time

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
    diarized = transcribe("gpt-4o-transcribe-diarize", response_format="diarized_json", chunking_strategy="auto")
    found["speakers"] = [[segment.speaker, segment.text] for segment in diarized.segments]
    found["logprobs"] = [word.logprob for word in transcribe(include=["logprobs"], languages=["en"]).logprobs]
    with open(path, "rb") as file:
        translated = client.audio.translations.create(file=file, model="whisper-1", response_format="verbose_json")
    found["translated"] = [translated.language, translated.text]
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


def diarize(talk, clip, name):
    client = openai.OpenAI(max_retries=0)
    with open(clip, "rb") as file:
        reference = "data:audio/wav;base64," + base64.b64encode(file.read()).decode()

    def transcribe(**options):
        options = {"known_speaker_names": [name], "known_speaker_references": [reference], **options}
        with open(talk, "rb") as file:
            return client.audio.transcriptions.create(
                file=file,
                model="gpt-4o-transcribe-diarize",
                response_format="diarized_json",
                language="en",
                chunking_strategy={"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 300},
                **options,
            )

    whole = transcribe()
    found = {"segments": [[segment.speaker, segment.text] for segment in whole.segments], "text": whole.text}
    events = list(transcribe(stream=True))
    found["streamed"] = [[event.speaker, event.text] for event in events if event.type.endswith(".segment")]
    found["deltas"] = "".join(event.delta for event in events if event.type.endswith(".delta"))
    found["seconds"] = events[-1].usage.seconds if hasattr(events[-1].usage, "seconds") else None
    errors = {}
    for case, options in {
        "names": {"known_speaker_names": [name, "Bob"]},
        "url": {"known_speaker_references": ["https://example.com/clip.wav"]},
        "silence": {"known_speaker_references": ["data:audio/wav;base64,UklGRg=="]},
        "chunks": {"chunking_strategy": {"type": "by_hand"}},
    }.items():
        try:
            transcribe(**options) if case != "chunks" else client.audio.transcriptions.create(
                file=open(talk, "rb"), model="whisper-1", **options
            )
        except openai.APIStatusError as error:
            errors[case] = [error.status_code, error.code]
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


def listen(path):
    with open(path, "rb") as file:
        audio = file.read()  # PCM16, little-endian, mono, 24 kHz

    def append(connection):
        for at in range(0, len(audio), 9600):
            connection.input_audio_buffer.append(audio=base64.b64encode(audio[at : at + 9600]).decode())

    client = openai.OpenAI()
    events, errors = [], {}
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        created = connection.recv()
        found = {"first": created.type, "session": created.session.type}
        settings = {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-transcribe", "language": "en", "prompt": "country"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
            "noise_reduction": {"type": "near_field"},
        }
        include = ["item.input_audio_transcription.logprobs"]
        connection.session.update(session={"type": "transcription", "audio": {"input": settings}, "include": include})
        append(connection)
        # The error comes when all audio before it is followed.
        connection.response.create(event_id="beyond")
        waits, followed = 0, False
        while waits > 0 or not followed:
            event = connection.recv()
            events.append(event)
            if event.type == "input_audio_buffer.committed":
                waits += 1
            elif event.type == "conversation.item.input_audio_transcription.completed":
                waits -= 1
            elif event.type == "error":
                errors["beyond"] = [event.error.event_id, event.error.code]
                followed = True
    completed = [event for event in events if event.type.endswith(".completed")]
    found["kinds"] = sorted({event.type for event in events})
    found["transcripts"] = [event.transcript for event in completed]
    found["deltas"] = sum(len(event.delta) for event in events if event.type.endswith(".delta"))
    found["logprobs"] = all(entry.logprob <= 0 for event in completed for entry in event.logprobs)
    found["seconds"] = all(event.usage.type == "duration" and event.usage.seconds > 0 for event in completed)
    secret = client.realtime.client_secrets.create(
        expires_after={"anchor": "created_at", "seconds": 60},
        session={"type": "transcription", "audio": {"input": {"turn_detection": None}}},
    )
    with openai.OpenAI(api_key=secret.value).realtime.connect() as connection:
        append(connection)
        connection.input_audio_buffer.commit()
        for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                found["by_secret"] = event.transcript
                break
    try:
        openai.OpenAI(api_key="ek_wrong").realtime.connect(extra_query={"intent": "transcription"}).enter()
    except Exception as error:
        errors["secret"] = error.response.status_code
    try:
        wrong = {"type": "transcription", "audio": {"input": {"transcription": {"model": "gpt-9"}}}}
        client.realtime.client_secrets.create(session=wrong)
    except openai.NotFoundError as error:
        errors["model"] = error.code
    return {**found, "errors": errors}


def talk(path):
    with open(path, "rb") as file:
        audio = file.read()  # PCM16, little-endian, mono, 24 kHz
    tool = {
        "type": "function",
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    }

    def until(kind):
        seen = []
        for event in connection:
            seen.append(event)
            if event.type == kind:
                return seen

    def write(text):
        content = [{"type": "input_text", "text": text}]
        connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})

    with openai.OpenAI().realtime.connect(model="gpt-realtime") as connection:
        found = {"session": connection.recv().session.type}
        connection.session.update(session={"type": "realtime", "tools": [tool], "instructions": "Be brief."})
        write("What is the weather in Rome?")
        connection.response.create()
        call = until("response.done")[-1].response.output[0]
        found["call"] = [call.name, json.loads(call.arguments)]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        connection.conversation.item.create(item=output)
        connection.response.create()
        events = until("response.done")
        found["status"] = events[-1].response.status
        found["answer"] = events[-1].response.output[0].content[0].transcript
        deltas = [event.delta for event in events if event.type == "response.output_audio.delta"]
        found["audio"] = sum(len(base64.b64decode(delta)) for delta in deltas)
        write("Tell me a story.")
        connection.response.create()
        until("response.output_audio.delta")
        for at in range(0, len(audio), 4800):
            connection.input_audio_buffer.append(audio=base64.b64encode(audio[at : at + 4800]).decode())
            time.sleep(0.09)
        response = until("response.done")[-1].response
        found["interrupted"] = [response.status, response.status_details.reason]
        found["said"] = response.output[0].content[0].transcript
        connection.conversation.item.retrieve(item_id="none")
        found["error"] = until("error")[-1].error.code
    return found


COMMANDS = {"recognise": recognise, "diarize": diarize, "chat": chat, "speak": speak, "listen": listen, "talk": talk}
print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))

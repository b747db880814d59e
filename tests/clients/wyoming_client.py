"""Uses a service through the package `wyoming`, as Home Assistant does.

Usage: wyoming_client.py ADDRESS PCM, with samples of 16 bits at 16 kHz. Prints one JSON object.
"""

import asyncio
import json
import sys

from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioChunkConverter, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info, SelectProgram
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

CHUNK = 2048


async def recognise(client, pcm, rate=16_000, **options):
    await client.write_event(Transcribe(**options).event())
    await client.write_event(AudioStart(rate, 2, 1).event())
    for at in range(0, len(pcm), CHUNK):
        await client.write_event(AudioChunk(rate, 2, 1, pcm[at : at + CHUNK]).event())
    await client.write_event(AudioStop().event())
    event = await client.read_event()
    return Transcript.from_event(event) if Transcript.is_type(event.type) else Error.from_event(event).code


async def sound(client):
    """The sound of one text, at 16 kHz, and the types of the events that brought it."""
    types, audio = [], b""
    converter = AudioChunkConverter(rate=16_000, width=2, channels=1)
    while not AudioStop.is_type((event := await client.read_event()).type):
        if AudioChunk.is_type(event.type):
            audio += converter.convert(AudioChunk.from_event(event)).audio
        if event.type not in types:
            types.append(event.type)
    return audio, types + [event.type]


async def main(address, path):
    with open(path, "rb") as file:
        pcm = file.read()
    found = {}
    async with AsyncClient.from_uri(address) as client:
        await client.write_event(Describe().event())
        info = Info.from_event(await client.read_event())
        await client.write_event(SelectProgram(info.asr[0].name).event())
        await client.write_event(Ping("hello").event())
        found["pong"] = Pong.from_event(await client.read_event()).text
        found["models"] = [[model.name, model.installed, "en" in model.languages] for model in info.asr[0].models]
        found["voices"] = [[voice.name, voice.languages, voice.attribution.url] for voice in info.tts[0].voices]
        found["streams"] = [info.asr[0].supports_transcript_streaming, info.tts[0].supports_synthesize_streaming]
        # Three recordings of one connection: with options, without, and of another rate.
        names = ["Kitchen light", "x" * 200]
        first = await recognise(client, pcm, name="svc-fast", language="en", transcript_names=names)
        found["first"] = [first.text, first.language]
        found["second"] = (await recognise(client, pcm)).text
        eight = b"".join(pcm[at : at + 2] for at in range(0, len(pcm), 4))
        found["eight"] = (await recognise(client, eight, 8_000)).text
        found["nothing"] = (await recognise(client, b"")).text

        # A whole text, then the same in chunks, of which Home Assistant sends the whole, too.
        text = "Good morning. The weather is fine today."
        voice = SynthesizeVoice(name=info.tts[0].voices[0].name)
        await client.write_event(Synthesize(text, voice=voice).event())
        whole, found["whole"] = await sound(client)
        await client.write_event(SynthesizeStart(voice=voice).event())
        for word in text.split(" "):
            await client.write_event(SynthesizeChunk(word + " ").event())
        await client.write_event(Synthesize(text).event())
        await client.write_event(SynthesizeStop().event())
        streamed, found["streamed"] = await sound(client)
        found["stopped"] = SynthesizeStopped.is_type((await client.read_event()).type)
        found["seconds"] = [len(audio) / 32_000 for audio in (whole, streamed)]
        found["read_back"] = (await recognise(client, streamed)).text

    found["errors"] = {}
    for name, events in {
        "model": [Transcribe(name="whisper-9"), AudioStart(16_000, 2, 1), AudioChunk(16_000, 2, 1, pcm), AudioStop()],
        "language": [Transcribe(language="tlh"), AudioChunk(16_000, 2, 1, pcm), AudioStop()],
        "program": [SelectProgram("piper")],
        "voice": [Synthesize("Hello", voice=SynthesizeVoice(name="nemo"))],
        "speaker": [Synthesize("Hello", voice=SynthesizeVoice(name=voice.name, speaker="2"))],
        "ssml": [Synthesize("<speak>Hello</speak>", text_format="ssml")],
        "stereo": [AudioStart(16_000, 2, 2)],
        "order": [AudioStop()],
        "text_in_audio": [AudioStart(16_000, 2, 1), Synthesize("Hello")],
        "chunk": [SynthesizeChunk("Hello")],
        "long": [Synthesize("Hello " * 20_000)],
    }.items():
        async with AsyncClient.from_uri(address) as client:
            for event in events:
                await client.write_event(event.event())
            error = await client.read_event()
            ended = await client.read_event() is None
            found["errors"][name] = [Error.from_event(error).code, ended]
    print(json.dumps(found))


asyncio.run(main(*sys.argv[1:]))

"""Calls a service in the media streams of telephone providers, with Pipecat's serializers as the other side.

Usage: telephony.py PROVIDER URL PCM, with an address of POST /v2/telephony/token and 16-bit speech, mono, 16 kHz. Pipecat has to understand each
frame that is sent, and each frame of the service has to be one that Pipecat would send. Prints one JSON object.
"""

import asyncio
import base64
import json
import sys

import websockets
from pipecat.frames.frames import InputAudioRawFrame, InputDTMFFrame, InterruptionFrame, OutputAudioRawFrame
from pipecat.runner.utils import parse_telephony_websocket
from pipecat.serializers.plivo import PlivoFrameSerializer
from pipecat.serializers.telnyx import TelnyxFrameSerializer
from pipecat.serializers.twilio import TwilioFrameSerializer

LONGEST_S = 100
RATE = 16_000
PACKET_S = 0.02
# 100 ms in mu-law.
SILENCE = [base64.b64encode(b"\xff" * 160).decode()] * 5
MULAW = {"encoding": "audio/x-mulaw", "sampleRate": 8000}


def twilio():
    serializer = TwilioFrameSerializer("MZ1", params=TwilioFrameSerializer.InputParams(auto_hang_up=False))
    start = {"streamSid": "MZ1", "callSid": "CA1", "customParameters": {"name": "Ann"}, "mediaFormat": MULAW}
    return serializer, {"event": "start", "streamSid": "MZ1", "start": start}


def telnyx():
    params = TelnyxFrameSerializer.InputParams(auto_hang_up=False)
    serializer = TelnyxFrameSerializer("st-1", "PCMU", "PCMU", params=params)
    media_format = {"encoding": "PCMU", "sample_rate": 8000, "channels": 1}
    start = {"call_control_id": "v3:1", "from": "+15550100", "to": "+15550199", "media_format": media_format}
    return serializer, {"event": "start", "stream_id": "st-1", "start": start}


def plivo():
    serializer = PlivoFrameSerializer("s-1", params=PlivoFrameSerializer.InputParams(auto_hang_up=False))
    return serializer, {"event": "start", "start": {"streamId": "s-1", "callId": "c-1", "mediaFormat": MULAW}}


class Texts:
    """The first messages of a stream, as Pipecat reads them."""

    def __init__(self, *messages):
        self.messages = [json.dumps(message) for message in messages]

    async def iter_text(self):
        for message in self.messages:
            yield message


def shape(frame):
    """A frame without its audio."""
    return {**frame, "media": {**frame["media"], "payload": None}} if "media" in frame else frame


async def main(provider, url, path):
    serializer, start = {"twilio": twilio, "telnyx": telnyx, "plivo": plivo}[provider]()
    serializer._sample_rate = RATE
    connected = {"event": "connected"}
    detected, call = await parse_telephony_websocket(Texts(connected, start))
    assert detected == provider and call["stream_id"] and call["call_id"], (detected, call)
    found = {"bytes": 0, "understood": 0, "clears": 0, "marks": 0, "closed": None}

    async def sent(frame):
        """A frame of the service: audio, clear or mark."""
        match frame["event"]:
            case "media" | "playAudio":
                audio = await serializer.deserialize(json.dumps({**frame, "event": "media"}))
                # The first audio may wait in Pipecat's resampler.
                if audio is not None:
                    ours = await serializer.serialize(OutputAudioRawFrame(audio.audio, audio.sample_rate, 1))
                    assert ours is None or shape(json.loads(ours)) == shape(frame), (ours, frame)
                    found["understood"] += ours is not None
                found["bytes"] += len(base64.b64decode(frame["media"]["payload"]))
            case "clear" | "clearAudio":
                assert frame == json.loads(await serializer.serialize(InterruptionFrame())), frame
                found["clears"] += 1
            case "mark":
                await socket.send(json.dumps(frame))
                found["marks"] += 1
            case "checkpoint":
                await socket.send(json.dumps({**frame, "event": "playedStream"}))
                found["marks"] += 1
            case other:
                raise ValueError(f"a frame {other}")

    async def read():
        async for text in socket:
            await sent(json.loads(text))
        found["closed"] = socket.close_code

    async def send(frame, kind):
        understood = await serializer.deserialize(json.dumps(frame))
        assert understood is None or isinstance(understood, kind), frame
        await socket.send(json.dumps(frame))

    async def speak(payloads):
        began = asyncio.get_running_loop().time()
        for number, payload in enumerate(payloads, 1):
            await send({"event": "media", "media": {"track": "inbound", "payload": payload}}, InputAudioRawFrame)
            await asyncio.sleep(began + number * PACKET_S - asyncio.get_running_loop().time())

    async def until(is_so):
        while not is_so():
            assert not reading.done(), reading.exception()
            await speak(SILENCE)

    async def coded(audio):
        step = int(RATE * PACKET_S) * 2
        pieces = [audio[at : at + step] for at in range(0, len(audio), step)]
        frames = [await serializer.serialize(OutputAudioRawFrame(piece, RATE, 1)) for piece in pieces]
        return [json.loads(frame)["media"]["payload"] for frame in frames if frame is not None]

    with open(path, "rb") as file:
        speech = await coded(file.read())
    async with websockets.connect(url) as socket:
        await socket.send(json.dumps(connected))
        await socket.send(json.dumps(start))
        reading = asyncio.create_task(read())
        await until(lambda: found["bytes"] > 0 and found["marks"] > 0)
        greeting = found["bytes"]
        await speak(speech)
        await until(lambda: found["bytes"] > greeting + 16_000)
        await send({"event": "dtmf", "dtmf": {"digit": "5"}}, InputDTMFFrame)
        await until(lambda: found["clears"] > 0)
        # Keys are passed on after a pause, and answered.
        for _ in range(40):
            await speak(SILENCE)
        if provider == "plivo":
            await socket.close()
        else:
            await socket.send(json.dumps({"event": "stop"}))
        await reading
    print(json.dumps(found))


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), LONGEST_S))

"""Uses a service through Deepgram's own package, of which only the address and the key are set.

Usage: deepgram_client.py file PATH | live PCM | speak, with DEEPGRAM_URL and DEEPGRAM_API_KEY. Prints one JSON object.
"""

import json
import os
import sys
import threading

from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from websockets.exceptions import InvalidStatus

url = os.environ["DEEPGRAM_URL"]
socket = url.replace("http", "ws", 1)
environment = DeepgramClientEnvironment(base=url, production=socket, agent=socket, agent_rest=url)
client = DeepgramClient(environment=environment)


def checked(answer):
    """The answer as JSON. The package accepts answers of any form: its types are checked here."""
    text = answer.json()
    type(answer).model_validate_json(text)
    return json.loads(text)


def failure(call):
    try:
        call()
    except ApiError as error:
        body = error.body if isinstance(error.body, dict) else json.loads(error.body.json())
        return [error.status_code, body["err_code"], body["err_msg"], len(body["request_id"])]
    return None


def file(path):
    with open(path, "rb") as recording:
        audio = recording.read()

    def transcribe(audio=audio, client=client, **options):
        return client.listen.v1.media.transcribe_file(request=audio, **options)

    parts = (audio[at : at + 65536] for at in range(0, len(audio), 65536))
    found = {"plain": checked(transcribe(model="nova-3"))}
    found["full"] = checked(
        transcribe(
            audio=parts, model="nova-2-general", language="en-US", smart_format=True, diarize=True, utterances=True,
            paragraphs=True, summarize="v2", detect_entities=True, sentiment=True, keyterm=["country", "fellow Americans"],
            tag=["a", "b"], utt_split=0.3, topics=False, mip_opt_out=True,
        )
    )
    found["detected"] = checked(transcribe(model="base", detect_language=True, punctuate=True))
    wrong = DeepgramClient(environment=environment, api_key="wrong")
    found["errors"] = {
        "topics": failure(lambda: transcribe(model="nova-3", topics=True, sentiment=True)),
        "model": failure(lambda: transcribe(model="nebula-9")),
        "garbage": failure(lambda: transcribe(audio=b"no sound at all", model="nova-3")),
        "empty": failure(lambda: transcribe(audio=b"", model="nova-3")),
        "url": failure(lambda: client.listen.v1.media.transcribe_url(url="http://127.0.0.1:1/a.wav", model="nova-3")),
        "key": failure(lambda: transcribe(client=wrong, model="nova-3")),
    }
    return found


def live(path):
    with open(path, "rb") as recording:
        audio = recording.read()  # PCM16, little-endian, mono, 16 kHz

    def session(during=lambda connection: None, **options):
        frames = []
        with client.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate="16000", **options) as connection:

            def send():
                for at in range(0, len(audio), 3200):
                    connection.send_media(audio[at : at + 3200])
                during(connection)
                connection.send_close_stream()

            sender = threading.Thread(target=send)
            sender.start()
            for frame in connection:
                frames.append(checked(frame))
            sender.join()
        return frames

    options = {"interim_results": "true", "endpointing": "300", "utterance_end_ms": "1000", "vad_events": "true"}
    found = {"turns": session(smart_format="true", keyterm="country", **options)}
    found["whole"] = session(endpointing="false")

    def finalize(connection):
        connection.send_keep_alive()
        connection.send_finalize()

    found["finalized"] = session(during=finalize, endpointing="false", punctuate="true")

    def connect(client=client, **options):
        with client.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate="16000", **options):
            pass

    def status(call):
        try:
            call()
        except (ApiError, InvalidStatus) as error:
            # The package does not know the newest error of its library.
            return error.status_code if isinstance(error, ApiError) else error.response.status_code
        return None

    wrong = DeepgramClient(environment=environment, api_key="wrong")
    found["errors"] = [status(lambda: connect(client=wrong)), status(lambda: connect(diarize="true"))]
    return found


def speak():
    def say(text="Good morning.", **options):
        return b"".join(client.speak.v1.audio.generate(text=text, **options))

    wav = say(model="aura-2-thalia-en", encoding="linear16", sample_rate=16000)
    found = {"riff": wav[:4].decode(), "rate": int.from_bytes(wav[24:28], "little"), "wav": len(wav)}
    found["mulaw"] = len(say(encoding="mulaw", container="none", sample_rate=8000))
    found["errors"] = {
        "model": failure(lambda: say(model="aura-2-thalia-xx", encoding="linear16")),
        "bit_rate": failure(lambda: say(bit_rate=48000)),
        "nothing": failure(lambda: say(text="...", encoding="linear16")),
    }
    frames, audio = [], 0
    with client.speak.v1.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate="24000") as connection:
        from deepgram.speak.v1.types.speak_v1text import SpeakV1Text

        connection.send_text(SpeakV1Text(type="Speak", text="Good morning. "))
        connection.send_text(SpeakV1Text(type="Speak", text="How are you?"))
        connection.send_flush()
        connection.send_text(SpeakV1Text(type="Speak", text="Goodbye."))
        connection.send_close()
        for frame in connection:
            if isinstance(frame, bytes):
                audio += len(frame)
            else:
                frames.append(checked(frame))
    found["frames"], found["audio"] = frames, audio
    return found


command, args = sys.argv[1], sys.argv[2:]
print(json.dumps({"file": file, "live": live, "speak": speak}[command](*args)))

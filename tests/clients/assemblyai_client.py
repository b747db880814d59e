"""Uses a service through AssemblyAI's own package, of which only the address and the key are set.

Usage: assemblyai_client.py files FILE GARBAGE | live PCM16 | live-refused, with ASSEMBLYAI_BASE_URL and ASSEMBLYAI_API_KEY. Prints one JSON object.
"""

import json
import os
import sys
import time

import assemblyai as aai
from assemblyai.streaming.v3 import (
    StreamingClient,
    StreamingClientOptions,
    StreamingEvents,
    StreamingParameters,
    StreamingSessionParameters,
)

aai.settings.polling_interval = 0.2


def fails(work):
    """The message of the package's error."""
    try:
        work()
    except aai.types.AssemblyAIError as error:
        return str(error)
    return None


def files(path, garbage):
    transcriber = aai.Transcriber()
    config = aai.TranscriptionConfig(
        speaker_labels=True,
        sentiment_analysis=True,
        entity_detection=True,
        auto_chapters=True,
        content_safety=True,
        keyterms_prompt=["Americans"],
    )
    transcript = transcriber.transcribe(path, config=config)
    assert transcript.status == aai.TranscriptStatus.completed, transcript.error
    found = {
        "text": transcript.text,
        "audio_url": transcript.audio_url,
        "duration": transcript.audio_duration,
        "confidence": transcript.confidence,
        "words": [[word.text, word.start, word.end] for word in transcript.words],
        "utterances": [[turn.speaker, turn.text, len(turn.words)] for turn in transcript.utterances],
        "sentiments": [one.sentiment.value for one in transcript.sentiment_analysis],
        "entities": [[entity.entity_type.value, entity.text] for entity in transcript.entities],
        "chapters": [chapter.headline for chapter in transcript.chapters],
        "safety": transcript.content_safety.status.value,
        "sentences": [sentence.text for sentence in transcript.get_sentences()],
        "paragraphs": [len(paragraph.words) for paragraph in transcript.get_paragraphs()],
        "srt": transcript.export_subtitles_srt(),
        "narrow": transcript.export_subtitles_vtt(chars_per_caption=20),
        "matches": [[match.text, match.count, match.indexes] for match in transcript.word_search(["country", "ask not"])],
    }
    failed = transcriber.transcribe(garbage)
    found["failed"] = [failed.status.value, failed.error]
    config = aai.TranscriptionConfig(auto_highlights=True)
    found["refused"] = fails(lambda: transcriber.transcribe(path, config=config))

    page = transcriber.list_transcripts(aai.ListTranscriptParameters(limit=1))
    found["newest"] = [page.transcripts[0].id, page.transcripts[0].status.value]
    older = page.page_details.before_id_of_prev_url
    page = transcriber.list_transcripts(aai.ListTranscriptParameters(limit=1, before_id=older))
    found["older"] = [page.transcripts[0].id, page.page_details.result_count, page.page_details.prev_url]
    newer = transcriber.list_transcripts(aai.ListTranscriptParameters(after_id=page.transcripts[0].id))
    found["newer"] = [item.id for item in newer.transcripts]
    found["ids"] = [failed.id, transcript.id]
    deleted = aai.Transcript.delete_by_id(transcript.id)
    found["deleted"] = [deleted.id, deleted.text]
    found["gone"] = fails(lambda: aai.Transcript.get_by_id(transcript.id))
    aai.settings.api_key = "svc_wrong"
    found["unauthorized"] = fails(lambda: aai.Transcriber(client=aai.Client(settings=aai.settings)).transcribe(path))
    return found


def session(key, parameters, work):
    """All events of a session, each with its type, and its errors."""
    address = aai.settings.base_url.replace("http", "ws", 1)
    client = StreamingClient(StreamingClientOptions(api_key=key, api_host=address, terminate_timeout=60))
    events = []
    for kind in StreamingEvents:
        if kind == StreamingEvents.Error:
            client.on(kind, lambda _, error: events.append({"type": "Error", "error": str(error), "code": error.code}))
        else:
            client.on(kind, lambda _, event: events.append(event.model_dump(mode="json")))
    client.connect(parameters)
    work(client, events)
    client.disconnect(terminate=True)
    return events


def waits(events, kind):
    for _ in range(600):
        if any(event["type"] == kind for event in events):
            return
        time.sleep(0.1)


def live(path):
    with open(path, "rb") as file:
        pcm = file.read()

    def speak(client, _):
        client.stream(pcm[at : at + 3200] for at in range(0, len(pcm), 3200))
        client.set_params(StreamingSessionParameters(max_turn_silence=900, keyterms_prompt=["country"]))
        client.keep_alive()
        client.stream(pcm[at : at + 3200] for at in range(0, len(pcm), 3200))
        client.force_endpoint()

    parameters = StreamingParameters(sample_rate=16000, format_turns=True, min_turn_silence=160, keyterms_prompt=["Americans"])
    return session(aai.settings.api_key, parameters, speak)


def live_refused():
    parameters = StreamingParameters(sample_rate=16000)
    wrong = session("svc_wrong", parameters, lambda _, events: waits(events, "Error"))
    labels = StreamingParameters(sample_rate=16000, speaker_labels=True)
    refused = session(aai.settings.api_key, labels, lambda _, events: waits(events, "Error"))
    return {"wrong": wrong, "refused": refused}


work = {"files": files, "live": live, "live-refused": live_refused}[sys.argv[1]]
print(json.dumps(work(*sys.argv[2:])))

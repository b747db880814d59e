"""Uses a service through frameworks for voice agents, unchanged.

Usage: frameworks.py livekit-listen MODEL PCM | livekit-talk PCM | pipecat-listen PCM | pipecat-talk PCM, with OPENAI_BASE_URL and OPENAI_API_KEY.
PCM is 16-bit, mono, 24 kHz; for pipecat-listen 16 kHz, as its detector wants it. Prints one JSON object.
"""

import asyncio
import json
import os
import sys

BASE = os.environ["OPENAI_BASE_URL"]
KEY = os.environ["OPENAI_API_KEY"]
RATE = 24_000
DETECTOR_RATE = 16_000
LONGEST_S = 100
INSTRUCTIONS = "You are the desk of a hotel."


def pieces(path, silence_s=0, rate=RATE):
    """Pieces of 100 ms."""
    step = rate // 10 * 2
    with open(path, "rb") as file:
        audio = file.read() + bytes(int(rate * silence_s) * 2)
    return [audio[at : at + step] for at in range(0, len(audio) - step + 1, step)]


async def livekit_listen(model, path):
    from livekit import rtc
    from livekit.agents import stt, utils
    from livekit.plugins import openai

    found = {"interim": 0, "finals": [], "starts": 0, "ends": 0}
    async with utils.http_context.open():
        recogniser = openai.STT(use_realtime=True, base_url=BASE, api_key=KEY, model=model, language="en")
        stream = recogniser.stream()

        async def push():
            for piece in pieces(path, 1.5):
                stream.push_frame(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
                await asyncio.sleep(0.09)

        pushing = asyncio.create_task(push())

        async def read():
            async for event in stream:
                match event.type:
                    case stt.SpeechEventType.START_OF_SPEECH:
                        found["starts"] += 1
                    case stt.SpeechEventType.END_OF_SPEECH:
                        found["ends"] += 1
                    case stt.SpeechEventType.INTERIM_TRANSCRIPT:
                        found["interim"] += 1
                    case stt.SpeechEventType.FINAL_TRANSCRIPT:
                        found["finals"].append(event.alternatives[0].text)

        reading = asyncio.create_task(read())
        await pushing
        # Every turn that has ended gets its text, or the stream fails.
        await wait_for(lambda: reading.done() or len(found["finals"]) >= found["ends"] > 1)
        if reading.done():
            reading.result()
        await stream.aclose()
        await recogniser.aclose()
    return found


async def livekit_talk(path):
    from livekit import rtc
    from livekit.agents import function_tool, llm, utils
    from livekit.plugins import openai

    found = {"errors": [], "heard": []}
    generations = asyncio.Queue()

    @function_tool
    async def weather(place: str) -> str:
        """The weather of a place."""
        return "sunny"

    async with utils.http_context.open():
        model = openai.realtime.RealtimeModel(base_url=BASE, api_key=KEY, model="gpt-realtime")
        session = model.session()
        session.on("error", lambda event: found["errors"].append(repr(event.error)))
        session.on("generation_created", generations.put_nowait)
        session.on(
            "input_audio_transcription_completed",
            lambda event: found["heard"].append(event.transcript) if event.is_final else None,
        )
        await session.update_instructions(INSTRUCTIONS)
        await session.update_tools([weather])
        history = llm.ChatContext.empty()
        history.add_message(role="user", content="My name is Ann.")
        history.add_message(role="assistant", content="Good morning, Ann.")
        await session.update_chat_ctx(history)

        async def speak():
            for piece in pieces(path):
                session.push_audio(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))
                await asyncio.sleep(0.09)

        async def collect(generation):
            """The id, text and audio of a message, and the calls."""
            turn = {"id": None, "text": "", "samples": 0, "calls": []}

            async def messages():
                async for message in generation.message_stream:
                    turn["id"] = message.message_id

                    async def text():
                        async for delta in message.text_stream:
                            turn["text"] += delta

                    async def audio():
                        async for frame in message.audio_stream:
                            turn["samples"] += frame.samples_per_channel

                    await asyncio.gather(text(), audio())

            async def calls():
                async for call in generation.function_stream:
                    turn["calls"].append(call)

            await asyncio.gather(messages(), calls())
            return turn

        async def ask(text):
            history = session.chat_ctx.copy()
            history.add_message(role="user", content=text)
            await session.update_chat_ctx(history)
            generation = await session.generate_reply()
            generations.get_nowait()
            return generation

        # A question, a call, and a spoken answer.
        first = await collect(await ask("What is the weather in Rome?"))
        [call] = first["calls"]
        found["call"] = [call.name, json.loads(call.arguments)]
        history = session.chat_ctx.copy()
        history.items.append(llm.FunctionCallOutput(call_id=call.call_id, output="sunny", is_error=False, name=call.name))
        await session.update_chat_ctx(history)
        answer = await collect(await session.generate_reply())
        generations.get_nowait()
        found["answer"], found["samples"] = answer["text"], answer["samples"]

        # A story that the caller interrupts.
        story = await ask("Tell me a story.")
        speaking = asyncio.create_task(speak())
        told = await collect(story)
        session.truncate(
            message_id=told["id"], modalities=["audio"], audio_end_ms=min(300, told["samples"] * 1000 // RATE)
        )
        found["story"] = told["text"]
        last = await collect(await generations.get())
        await speaking
        found["last"] = last["text"]
        found["history"] = [item.role if item.type == "message" else item.type for item in session.chat_ctx.items]
        await session.aclose()
        await model.aclose()
    return found


async def pipecat(processors, path, act, rate=RATE, silence_s=0):
    """Runs a pipeline until `act` is over, which gets its worker and what speaks into it at the pace of speech."""
    from pipecat.frames.frames import EndFrame, InputAudioRawFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineParams, PipelineWorker
    from pipecat.workers.runner import WorkerRunner

    worker = PipelineWorker(
        Pipeline(processors), params=PipelineParams(audio_in_sample_rate=rate, audio_out_sample_rate=RATE)
    )
    started = asyncio.Event()

    @worker.event_handler("on_pipeline_started")
    async def on_started(_worker, _frame):
        started.set()

    async def speak():
        for piece in pieces(path, silence_s, rate):
            await worker.queue_frame(InputAudioRawFrame(audio=piece, sample_rate=rate, num_channels=1))
            await asyncio.sleep(0.09)

    async def run():
        await started.wait()
        await act(worker, speak)
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), run())


def watcher(frames):
    """A processor that puts every frame into a list."""
    from pipecat.processors.frame_processor import FrameProcessor

    class Watcher(FrameProcessor):
        async def process_frame(self, frame, direction):
            await super().process_frame(frame, direction)
            frames.append(frame)
            await self.push_frame(frame, direction)

    return Watcher()


async def wait_for(ready, seconds=30):
    for _ in range(int(seconds * 20)):
        if ready():
            return True
        await asyncio.sleep(0.05)
    return False


async def pipecat_listen(path):
    from pipecat.audio.vad.silero import SileroVADAnalyzer
    from pipecat.frames.frames import ErrorFrame, InterimTranscriptionFrame, TranscriptionFrame, VADUserStoppedSpeakingFrame
    from pipecat.processors.audio.vad_processor import VADProcessor
    from pipecat.services.openai.stt import OpenAIRealtimeSTTService

    frames = []
    recogniser = OpenAIRealtimeSTTService(api_key=KEY, base_url=BASE.replace("http", "ws") + "/realtime")
    vad = VADProcessor(vad_analyzer=SileroVADAnalyzer())
    of = lambda kind: [frame for frame in frames if isinstance(frame, kind)]

    async def act(_worker, speak):
        await wait_for(lambda: recogniser._session_ready)
        await speak()
        await wait_for(lambda: len(of(TranscriptionFrame)) >= len(of(VADUserStoppedSpeakingFrame)) > 0, 10)

    await pipecat([vad, recogniser, watcher(frames)], path, act, DETECTOR_RATE, silence_s=1)
    return {
        "turns": len(of(VADUserStoppedSpeakingFrame)),
        "finals": [frame.text for frame in of(TranscriptionFrame)],
        "interim": len(of(InterimTranscriptionFrame)),
        "errors": [frame.error for frame in of(ErrorFrame)],
    }


async def pipecat_talk(path):
    from pipecat.adapters.schemas.function_schema import FunctionSchema
    from pipecat.frames.frames import (
        ErrorFrame,
        InterruptionFrame,
        LLMRunFrame,
        LLMTextFrame,
        TTSAudioRawFrame,
    )
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
    from pipecat.services.openai.realtime import events
    from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

    frames, asked = [], []

    async def weather(params):
        asked.append(dict(params.arguments))
        await params.result_callback({"sky": "sunny"})

    schema = FunctionSchema(
        name="weather",
        description="The weather of a place.",
        properties={"place": {"type": "string"}},
        required=["place"],
        handler=weather,
    )
    audio = events.AudioConfiguration(
        input=events.AudioInput(
            transcription=events.InputAudioTranscription(), turn_detection=events.SemanticTurnDetection()
        )
    )
    model = OpenAIRealtimeLLMService(
        api_key=KEY,
        base_url=BASE.replace("http", "ws") + "/realtime",
        settings=OpenAIRealtimeLLMService.Settings(
            system_instruction=INSTRUCTIONS, session_properties=events.SessionProperties(audio=audio)
        ),
    )
    context = LLMContext([{"role": "user", "content": "Tell me a story."}], [schema])
    aggregators = LLMContextAggregatorPair(context)
    of = lambda kind: [frame for frame in frames if isinstance(frame, kind)]
    text = lambda: "".join(frame.text for frame in of(LLMTextFrame))
    found = {}

    async def act(worker, speak):
        # A story that the caller interrupts by a question, a call, and a spoken answer.
        await worker.queue_frame(LLMRunFrame())
        await wait_for(lambda: of(TTSAudioRawFrame))
        await speak()
        await wait_for(lambda: text().endswith("in Rome."))
        found["bytes"] = sum(len(frame.audio) for frame in of(TTSAudioRawFrame))
        found["interruptions"] = len(of(InterruptionFrame))
        found["errors"] = [frame.error for frame in of(ErrorFrame)]

    await pipecat([aggregators.user(), model, watcher(frames), aggregators.assistant()], path, act)
    found["asked"] = asked
    found["context"] = [[message["role"], message.get("content")] for message in context.get_messages()]
    return found


COMMANDS = {
    "livekit-listen": livekit_listen,
    "livekit-talk": livekit_talk,
    "pipecat-listen": pipecat_listen,
    "pipecat-talk": pipecat_talk,
}
print(json.dumps(asyncio.run(asyncio.wait_for(COMMANDS[sys.argv[1]](*sys.argv[2:]), LONGEST_S))))

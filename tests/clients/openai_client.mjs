// Uses a service through OpenAI's own package, of which only the base URL and the key are set.
//
// Usage: openai_client.mjs recognise FILE | chat | speak | talk PCM, with OPENAI_BASE_URL, OPENAI_API_KEY and the folder of the packages in
// AURICLE_NODE_MODULES. Prints one JSON object.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(process.env.AURICLE_NODE_MODULES + '/');
const OpenAI = require('openai').default;

async function recognise(path) {
  const client = new OpenAI();
  const found = { models: [] };
  for await (const model of client.models.list()) found.models.push(model.id);
  const transcribe = (options) =>
    client.audio.transcriptions.create({ file: fs.createReadStream(path), model: 'whisper-1', ...options });
  found.text = (await transcribe({})).text;
  const verbose = await transcribe({ response_format: 'verbose_json', timestamp_granularities: ['word'] });
  found.words = verbose.words.map(({ word, start, end }) => [word, start, end]);
  found.as_srt = await transcribe({ response_format: 'srt' });
  let streamed = '';
  for await (const event of await transcribe({ stream: true })) {
    if (event.type === 'transcript.text.delta') streamed += event.delta;
  }
  found.streamed = streamed;
  try {
    await transcribe({ response_format: 'xml' });
  } catch (error) {
    found.error = [error.constructor.name, error.status, error.code];
  }
  return found;
}

async function chat() {
  const client = new OpenAI({ maxRetries: 0 });
  const request = { model: 'their-model', messages: [{ role: 'user', content: 'Hi' }] };
  const answer = await client.chat.completions.create(request);
  const found = { text: answer.choices[0].message.content, tokens: answer.usage.total_tokens, streamed: '' };
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    found.streamed += chunk.choices[0]?.delta?.content ?? '';
  }
  try {
    await client.chat.completions.create({ ...request, model: 'gpt-9' });
  } catch (error) {
    found.error = error.code;
  }
  return found;
}

async function speak() {
  const client = new OpenAI({ maxRetries: 0 });
  const request = { model: 'tts-1', input: 'Good morning.', voice: 'alloy', response_format: 'pcm' };
  const said = await client.audio.speech.create(request);
  const found = { pcm: (await said.arrayBuffer()).byteLength, streamed: 0 };
  for await (const part of (await client.audio.speech.create(request)).body) found.streamed += part.length;
  try {
    await client.audio.speech.create({ ...request, voice: 'siri' });
  } catch (error) {
    found.error = [error.constructor.name, error.status, error.code];
  }
  return found;
}

async function talk(path) {
  const { OpenAIRealtimeWS } = require('openai/realtime/ws');
  // The package knows sockets over TLS alone, which a proxy ends; here it is left out.
  const { hostname, port } = new URL(process.env.OPENAI_BASE_URL);
  const options = { createConnection: () => net.connect(Number(port), hostname) };
  const connection = await OpenAIRealtimeWS.create(new OpenAI(), { model: 'gpt-realtime', options });
  const found = { kinds: new Set(), errors: [], heard: [] };
  const until = (kind) => new Promise((resolve) => connection.once(kind, resolve));
  connection.on('event', (event) => found.kinds.add(event.type));
  connection.on('error', (error) => found.errors.push(error.error?.code ?? error.message));
  connection.on('conversation.item.input_audio_transcription.completed', (event) => found.heard.push(event.transcript));
  const audio = fs.readFileSync(path); // PCM16, little-endian, mono, 24 kHz
  const say = async () => {
    for (let at = 0; at < audio.length; at += 4800) {
      const piece = audio.subarray(at, at + 4800).toString('base64');
      connection.send({ type: 'input_audio_buffer.append', audio: piece });
      await sleep(90);
    }
  };
  await until('session.created');
  const input = {
    transcription: { model: 'gpt-4o-transcribe' },
    turn_detection: { type: 'semantic_vad', eagerness: 'high' },
  };
  connection.send({ type: 'session.update', session: { type: 'realtime', instructions: 'Be brief.', audio: { input } } });
  const { session } = await until('session.updated');
  found.detection = session.audio.input.turn_detection.type;
  let done = until('response.done');
  await say();
  found.answer = (await done).response.output[0].content[0].transcript;
  // A story that the caller interrupts.
  done = until('response.done');
  const content = [{ type: 'input_text', text: 'Tell me a story.' }];
  connection.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
  connection.send({ type: 'response.create' });
  await until('response.output_audio.delta');
  const heard = until('conversation.item.input_audio_transcription.completed');
  await say();
  const { response } = await done;
  found.interrupted = [response.status, response.status_details.reason];
  found.said = response.output[0].content[0].transcript;
  await heard;
  connection.close();
  return { ...found, kinds: [...found.kinds].sort() };
}

const commands = { recognise, chat, speak, talk };
console.log(JSON.stringify(await commands[process.argv[2]](...process.argv.slice(3))));

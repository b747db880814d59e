// Uses a service through OpenAI's own package, of which only the base URL and the key are set.
//
// Usage: openai_client.mjs recognise FILE | chat | speak, with OPENAI_BASE_URL, OPENAI_API_KEY and the folder of the packages in
// AURICLE_NODE_MODULES. Prints one JSON object.

import fs from 'node:fs';
import { createRequire } from 'node:module';

const OpenAI = createRequire(process.env.AURICLE_NODE_MODULES + '/')('openai').default;

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

const commands = { recognise, chat, speak };
console.log(JSON.stringify(await commands[process.argv[2]](...process.argv.slice(3))));

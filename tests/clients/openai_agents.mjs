// Talks to a service through OpenAI's Agents SDK, unchanged.
//
// Usage: openai_agents.mjs PCM, with OPENAI_BASE_URL, OPENAI_API_KEY and the folder of the packages in AURICLE_NODE_MODULES. PCM is 16-bit,
// mono, 24 kHz. Prints one JSON object.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(process.env.AURICLE_NODE_MODULES + '/');
const { RealtimeAgent, RealtimeSession, tool } = require('@openai/agents-realtime');

const found = { errors: [], asked: [] };
setTimeout(() => {
  console.error('it takes too long', JSON.stringify(found));
  process.exit(1);
}, 100_000).unref();
const weather = tool({
  name: 'weather',
  description: 'The weather of a place.',
  parameters: {
    type: 'object',
    properties: { place: { type: 'string' } },
    required: ['place'],
    additionalProperties: false,
  },
  strict: true,
  execute: async ({ place }) => {
    found.asked.push(place);
    return 'sunny';
  },
});
const agent = new RealtimeAgent({ name: 'Desk', instructions: 'You are the desk of a hotel.', tools: [weather] });
const session = new RealtimeSession(agent, { transport: 'websocket', model: 'gpt-realtime' });
session.on('error', (error) => found.errors.push(error.error));

const until = (name, matches = () => true) =>
  new Promise((resolve) => {
    const listen = (...event) => {
      if (!matches(...event)) return;
      session.off(name, listen);
      resolve(event);
    };
    session.on(name, listen);
  });
const audio = fs.readFileSync(process.argv[2]);
const speak = async () => {
  for (let at = 0; at < audio.length; at += 4800) {
    session.sendAudio(new Uint8Array(audio.subarray(at, at + 4800)).buffer);
    await sleep(90);
  }
};

const url = process.env.OPENAI_BASE_URL.replace('http', 'ws') + '/realtime?model=gpt-realtime';
await session.connect({ apiKey: process.env.OPENAI_API_KEY, url });

// A question, a call, and a spoken answer.
let bytes = 0;
session.on('audio', (event) => (bytes += event.data.byteLength));
const answered = until('agent_end', (_context, _agent, text) => text !== '');
session.sendMessage('What is the weather in Rome?');
found.answer = (await answered)[2];
found.bytes = bytes;

// A story that the caller interrupts.
const begun = until('audio');
session.sendMessage('Tell me a story.');
await begun;
const responds = (matches) =>
  until('transport_event', (event) => event.type === 'response.done' && matches(event.response.status));
const ended = responds((status) => status !== 'completed');
const stopped = until('audio_interrupted').then(() => true);
const next = responds((status) => status === 'completed');
await speak();
found.interrupted = (await ended)[0].response.status_details.reason;
found.stopped = await Promise.race([stopped, sleep(2000, false)]);
await next;
await sleep(500);
found.history = session.history.map((item) => [
  item.role ?? item.type,
  item.content?.map((part) => part.transcript ?? part.text).join(' ') ?? item.output,
]);
session.close();
console.log(JSON.stringify(found));

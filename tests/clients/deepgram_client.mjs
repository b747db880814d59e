// Uses a service through Deepgram's own package, of which only the address and the key are set.
//
// Usage: deepgram_client.mjs FILE PCM, with DEEPGRAM_URL, DEEPGRAM_API_KEY and the folder of the packages in AURICLE_NODE_MODULES. Prints
// one JSON object.

import fs from 'node:fs';
import { createRequire } from 'node:module';

const { DeepgramClient } = createRequire(process.env.AURICLE_NODE_MODULES + '/')('@deepgram/sdk');

const [path, pcm] = process.argv.slice(2);
const baseUrl = process.env.DEEPGRAM_URL;
const client = new DeepgramClient({ apiKey: process.env.DEEPGRAM_API_KEY, baseUrl, maxRetries: 0 });
const found = {};

const options = { model: 'nova-3', smart_format: true, keyterm: ['country', 'fellow'], utterances: true };
found.answer = await client.listen.v1.media.transcribeFile(fs.createReadStream(path), options);
const failure = async (call) => {
  try {
    await call();
  } catch (error) {
    return [error.constructor.name, error.statusCode, error.body.err_code];
  }
};
found.errors = [
  await failure(() => client.listen.v1.media.transcribeFile(fs.createReadStream(path), { model: 'nova-3', search: 'ask' })),
  await failure(() =>
    new DeepgramClient({ apiKey: 'wrong', baseUrl, maxRetries: 0 }).listen.v1.media.transcribeFile(
      fs.createReadStream(path),
      { model: 'nova-3' },
    ),
  ),
];

const audio = fs.readFileSync(pcm); // PCM16, little-endian, mono, 16 kHz
const connection = await client.listen.v1.connect({
  model: 'nova-3',
  encoding: 'linear16',
  sample_rate: 16000,
  endpointing: 300,
  punctuate: 'true',
  keyterm: ['country', 'fellow'],
  reconnectAttempts: 0,
});
found.frames = [];
await new Promise((resolve, reject) => {
  connection.on('message', (frame) => found.frames.push(frame));
  connection.on('close', resolve);
  connection.on('error', reject);
  connection.on('open', () => {
    for (let at = 0; at < audio.length; at += 3200) connection.sendMedia(audio.subarray(at, at + 3200));
    connection.sendCloseStream({ type: 'CloseStream' });
  });
  connection.connect();
});
connection.close();
console.log(JSON.stringify(found));

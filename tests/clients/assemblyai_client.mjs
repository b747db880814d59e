// Uses a service through AssemblyAI's own package, of which only the addresses and the key are set.
//
// Usage: assemblyai_client.mjs FILE PCM16, with ASSEMBLYAI_BASE_URL, ASSEMBLYAI_API_KEY and the folder of the packages in AURICLE_NODE_MODULES.
// The package insists on wss, so that a proxy ends TLS, as in front of a real service. Prints one JSON object.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import tls from 'node:tls';

const { AssemblyAI } = createRequire(process.env.AURICLE_NODE_MODULES + '/')('assemblyai');
const baseUrl = process.env.ASSEMBLYAI_BASE_URL;
const client = new AssemblyAI({ apiKey: process.env.ASSEMBLYAI_API_KEY, baseUrl, streamingBaseUrl: baseUrl });

async function file(recording) {
  const parameters = { audio: recording, speaker_labels: true };
  const transcript = await client.transcripts.transcribe(parameters, { pollingInterval: 200 });
  const found = { status: transcript.status, text: transcript.text, utterances: transcript.utterances.length };
  found.srt = await client.transcripts.subtitles(transcript.id, 'srt', 30);
  found.matches = (await client.transcripts.wordSearch(transcript.id, ['country'])).total_count;
  const page = await client.transcripts.list({ limit: 1 });
  found.listed = [page.transcripts[0].id === transcript.id, page.transcripts[0].created instanceof Date];
  const headers = { authorization: process.env.ASSEMBLYAI_API_KEY };
  const named = await (await fetch(page.transcripts[0].resource_url, { headers })).json();
  found.resource = named.id === transcript.id;
  await client.transcripts.delete(transcript.id);
  found.gone = await client.transcripts.get(transcript.id).catch((error) => error.message);
  return found;
}

async function proxy() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'proxy-'));
  const [key, cert] = ['key', 'cert'].map((name) => path.join(folder, name));
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
  const files = ['-keyout', key, '-out', cert];
  execFileSync('openssl', ['req', '-x509', ...curve, '-nodes', '-subj', '/CN=localhost', ...files], { stdio: 'ignore' });
  const server = tls.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) }, (socket) => {
    const { hostname, port } = new URL(baseUrl);
    const upstream = net.connect(Number(port), hostname);
    socket.pipe(upstream).pipe(socket);
    for (const end of [socket, upstream]) end.on('error', () => {});
  });
  fs.rmSync(folder, { recursive: true });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  return server;
}

async function live(pcm) {
  const server = await proxy();
  const websocketBaseUrl = `wss://127.0.0.1:${server.address().port}/v3/ws`;
  const token = await client.streaming.createTemporaryToken({ expires_in_seconds: 60, max_session_duration_seconds: 600 });
  const transcriber = client.streaming.transcriber({ token, websocketBaseUrl, sampleRate: 16_000, formatTurns: true });
  const found = { turns: [], errors: [] };
  transcriber.on('turn', (turn) => found.turns.push(turn));
  transcriber.on('error', (error) => found.errors.push(error.message));
  const begin = await transcriber.connect();
  found.begin = [typeof begin.id, begin.expires_at - Date.now() / 1000];
  const audio = fs.readFileSync(pcm);
  for (let at = 0; at < audio.length; at += 3200) transcriber.sendAudio(audio.subarray(at, at + 3200));
  await transcriber.close(true, 60_000);
  const wrong = client.streaming.transcriber({ apiKey: 'svc_wrong', token: undefined, websocketBaseUrl, sampleRate: 16_000 });
  found.wrong = await wrong.connect().catch((error) => [error.message, error.code]);
  server.close();
  return found;
}

const [recording, pcm] = process.argv.slice(2);
console.log(JSON.stringify({ file: await file(recording), live: await live(pcm) }));
process.exit(0);

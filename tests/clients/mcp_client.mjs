// Uses a service through the official package of the Model Context Protocol, over HTTP.
//
// Usage: mcp_client.mjs RECORDING_URL, with the address and a key of the service in AURICLE_URL and AURICLE_KEY and the folder of the
// packages in AURICLE_NODE_MODULES. Prints one JSON object.

import { createRequire } from 'node:module';

const require = createRequire(process.env.AURICLE_NODE_MODULES + '/');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');

const connect = async (key) => {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const headers = { Authorization: `Bearer ${key}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL('/mcp', process.env.AURICLE_URL), { requestInit: { headers } }),
  );
  return client;
};

const client = await connect(process.env.AURICLE_KEY);
await client.ping();
const { tools } = await client.listTools();
const made = await client.callTool({ name: 'transcribe', arguments: { url: process.argv[2], wait_seconds: 50 } });
const id = made.structuredContent.id;
const hits = await client.callTool({
  name: 'search_transcripts',
  arguments: { phrases: ['country'], transcript_ids: [id], limit: 1 },
});
const found = {
  server: client.getServerVersion().name,
  tools: tools.map((tool) => tool.name),
  status: made.structuredContent.status,
  hits: hits.structuredContent.hits.length,
  more: hits.structuredContent.transcripts_with_more_hits,
  id,
  resource: (await client.readResource({ uri: `auricle://transcripts/${id}` })).contents[0].text,
  errors: {},
};
const refusals = {
  tool: () => client.callTool({ name: 'delete_transcript', arguments: { transcript_id: id } }),
  method: () => client.listPrompts(),
  key: () => connect('svc_wrong'),
};
for (const [name, call] of Object.entries(refusals)) {
  try {
    await call();
  } catch (error) {
    found.errors[name] = [error.constructor.name, error.code, error.message];
  }
}
await client.close();
console.log(JSON.stringify(found));
